package workloads

import (
	"fmt"
	"strings"
)

// TLS says how https:// endpoints are spoken to. The zero TLS verifies the
// server by the system's authorities, shows no certificate and resumes sessions.
type TLS struct {
	// Insecure accepts any certificate of the server.
	Insecure bool
	// CACert, Cert and Key are PEM files: the authorities that are trusted instead
	// of the system's, and the client's certificate with its key. "" is none. A
	// workload file's names count from its directory.
	CACert, Cert, Key string
	// ServerName is the name that is asked for and verified. "" means the host of
	// the URL or endpoint.
	ServerName string
	// NoResumption makes every handshake a full one.
	NoResumption bool
	// Min and Max are versions, TLSVersions. "" is the first and the last of them.
	Min, Max string
}

// TLSVersions are the versions that may be asked for, the oldest first.
var TLSVersions = []string{"1.2", "1.3"}

// check returns an error for keys that contradict each other.
func (t *TLS) check() error {
	switch {
	case t.Cert != "" && t.Key == "":
		return &conflict{"cert", fmt.Sprintf("cert=%s without key, want the certificate's private key too", t.Cert)}
	case t.Key != "" && t.Cert == "":
		return &conflict{"key", fmt.Sprintf("key=%s without cert, want the key's certificate too", t.Key)}
	case t.Min != "" && t.Max != "" && t.Min > t.Max:
		return &conflict{"tls-min", fmt.Sprintf("tls-min=%s is above tls-max=%s", t.Min, t.Max)}
	}
	return nil
}

// Used returns the key of a setting that is not the default, "" when there is none.
func (t *TLS) Used() string {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"insecure", t.Insecure}, {"cacert", t.CACert != ""}, {"cert", t.Cert != ""}, {"key", t.Key != ""},
		{"servername", t.ServerName != ""}, {"tls-resumption", t.NoResumption}, {"tls-min", t.Min != ""}, {"tls-max", t.Max != ""},
	} {
		if k.set {
			return k.name
		}
	}
	return ""
}

// ParseTLSVersion reads one of TLSVersions.
func ParseTLSVersion(s string) (string, error) {
	var v string
	err := setWord(&v, s, TLSVersions, TLSVersions)
	return v, err
}

// ParseServerName reads a host name or an address.
func ParseServerName(s string) (string, error) {
	if !isHost(s) && !strings.Contains(s, ":") || strings.ContainsAny(s, " /[]") {
		return "", wanted(s, "a name such as api.example.com")
	}
	return s, nil
}

// ParseSwitch reads "on" or "off".
func ParseSwitch(s string) (on bool, err error) {
	err = setWord(&on, s, []bool{true, false}, []string{"on", "off"})
	return on, err
}

// truthField reads true or false.
func truthField(to *bool) func(value) error {
	return textField(to, "true or false", func(s string) (yes bool, err error) {
		err = setWord(&yes, s, []bool{true, false}, []string{"true", "false"})
		return yes, err
	})
}

// tlsFields lists the keys of TLS in a workload file.
func (w *Workload) tlsFields() []field {
	t := &w.TLS
	name := func(to *string) func(value) error {
		return func(v value) error {
			return textField(to, "the name of a PEM file", func(s string) (string, error) {
				if s == "" {
					return "", wanted(s, "the name of a PEM file")
				}
				return v.f.beside(s), nil
			})(v)
		}
	}
	return []field{
		{"insecure", truthField(&t.Insecure)},
		{"cacert", name(&t.CACert)},
		{"cert", name(&t.Cert)},
		{"key", name(&t.Key)},
		{"servername", textField(&t.ServerName, "a name such as api.example.com", ParseServerName)},
		{"tls-resumption", textField(&t.NoResumption, "on or off", func(s string) (bool, error) {
			on, err := ParseSwitch(s)
			return !on, err
		})},
		{"tls-min", textField(&t.Min, "1.2 or 1.3", ParseTLSVersion)},
		{"tls-max", textField(&t.Max, "1.2 or 1.3", ParseTLSVersion)},
	}
}

// writeTLS writes the keys of TLS.
func (w *Workload) writeTLS(y *yamlWriter) {
	t := &w.TLS
	if t.Insecure {
		y.word("insecure", "true")
	}
	y.given("cacert", t.CACert)
	y.given("cert", t.Cert)
	y.given("key", t.Key)
	y.given("servername", t.ServerName)
	if t.NoResumption {
		y.word("tls-resumption", "off")
	}
	y.given("tls-min", t.Min)
	y.given("tls-max", t.Max)
}
