package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"latencylab/target"
)

// tlsOptions are the flags about TLS as typed.
type tlsOptions struct {
	on              bool
	caOut           string
	names           []string
	cert, key       string
	clientAuthority string
}

func (o *tlsOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "tls", false, "")
	f.StringVar(&o.caOut, "tls-ca-out", "", "")
	f.StringArrayVar(&o.names, "tls-name", nil, "")
	f.StringVar(&o.cert, "cert", "", "")
	f.StringVar(&o.key, "key", "", "")
	f.StringVar(&o.clientAuthority, "client-ca", "", "")
}

// config is what the flags say; said is what the service says. nil is plain HTTP.
func (o *tlsOptions) config(said bool) (*target.TLS, error) {
	on := o.on || said || o.cert != "" || o.key != ""
	switch {
	case o.cert != "" && o.key == "":
		return nil, errors.New("--cert without --key, want both")
	case o.key != "" && o.cert == "":
		return nil, errors.New("--key without --cert, want both")
	case o.clientAuthority != "" && !on:
		return nil, errors.New("--client-ca without TLS, want --tls or --cert and --key too")
	case o.caOut != "" && (!on || o.cert != ""):
		return nil, errors.New("--tls-ca-out without a generated authority, want --tls and no --cert")
	case len(o.names) > 0 && (!on || o.cert != ""):
		return nil, errors.New("--tls-name without a generated certificate, want --tls and no --cert")
	case !on:
		return nil, nil
	}
	t := &target.TLS{Names: o.names}
	for _, name := range o.names {
		if name == "" || strings.ContainsAny(name, " /") {
			return nil, fmt.Errorf("--tls-name %q, want a name or an address such as shop.example", name)
		}
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s with --key %s: %w", o.cert, o.key, noSuchFile(err))
		}
		t.Certificate = &pair
	}
	if o.clientAuthority != "" {
		pem, err := os.ReadFile(o.clientAuthority)
		if err != nil {
			return nil, fmt.Errorf("--client-ca: %w", noSuchFile(err))
		}
		t.ClientCAs = x509.NewCertPool()
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--client-ca %s holds no certificate, want PEM with BEGIN CERTIFICATE", o.clientAuthority)
		}
	}
	return t, nil
}

// noSuchFile is what an error of opening a file says without naming it again.
func noSuchFile(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

// writeCA writes the certificate of the generated authority where it was asked for.
func (o *options) writeCA(pem []byte) error {
	if o.tls.caOut == "" {
		return nil
	}
	if err := os.WriteFile(o.tls.caOut, pem, 0o644); err != nil {
		return fmt.Errorf("--tls-ca-out: %w", err)
	}
	return nil
}

// tlsWords says which certificate callers meet, and what they need.
func (o *options) tlsWords() string {
	words := "a certificate of an authority generated for this run"
	switch {
	case o.tls.cert != "":
		words = "the certificate in " + o.tls.cert
	case o.tls.caOut != "":
		words += ", which is in " + o.tls.caOut
	}
	if o.tls.clientAuthority != "" {
		words += "; callers need one of " + o.tls.clientAuthority
	}
	return words
}

// trustFlags are what loadgen needs to accept the certificate, and to be accepted.
func (o *options) trustFlags() string {
	trust := " --insecure"
	switch {
	case o.tls.cert != "":
		trust = ""
	case o.tls.caOut != "":
		trust = " --cacert " + o.tls.caOut
	}
	if o.tls.clientAuthority != "" {
		trust += " --cert FILE --key FILE"
	}
	return trust
}
