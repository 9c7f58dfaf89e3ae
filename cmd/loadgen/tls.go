package main

import (
	"github.com/spf13/pflag"

	"latencylab/workloads"
)

// tlsFlags are the flags about https://.
type tlsFlags struct {
	workloads.TLS
	resumption bool
}

func (t *tlsFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&t.Insecure, "insecure", false, "")
	scalar(fs, &t.CACert, "cacert", "", "FILE", text)
	scalar(fs, &t.Cert, "cert", "", "FILE", text)
	scalar(fs, &t.Key, "key", "", "FILE", text)
	scalar(fs, &t.ServerName, "servername", "", "NAME", workloads.ParseServerName)
	scalar(fs, &t.resumption, "tls-resumption", "", "WORD", workloads.ParseSwitch)
	scalar(fs, &t.Min, "tls-min", "", "VERSION", workloads.ParseTLSVersion)
	scalar(fs, &t.Max, "tls-max", "", "VERSION", workloads.ParseTLSVersion)
}

// apply lays the flags that were given over to.
func (t *tlsFlags) apply(fs *pflag.FlagSet, to *workloads.TLS) {
	fs.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "insecure":
			to.Insecure = t.Insecure
		case "cacert":
			to.CACert = t.CACert
		case "cert":
			to.Cert = t.Cert
		case "key":
			to.Key = t.Key
		case "servername":
			to.ServerName = t.ServerName
		case "tls-resumption":
			to.NoResumption = !t.resumption
		case "tls-min":
			to.Min = t.Min
		case "tls-max":
			to.Max = t.Max
		}
	})
}
