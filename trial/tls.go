package trial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// clientTLS returns how the connections of the plan are secured, nil for plain
// HTTP. An error names the key and what is wrong with it or its file.
func (s *Setup) clientTLS(p *Plan) (*tls.Config, error) {
	t := &p.Workload.TLS
	name := ""
	switch {
	case s.Site != nil && s.Site.TLS:
		name = s.Site.ServerName
	case s.Site == nil && p.Workload.Service != nil && p.Workload.Service.TLS:
	case t.Used() != "":
		return nil, fmt.Errorf("%s is given, but nothing uses TLS, want an https:// URL or endpoint", t.Used())
	default:
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure, ServerName: name}
	if t.ServerName != "" {
		cfg.ServerName = t.ServerName
	}
	if t.Min == "1.3" {
		cfg.MinVersion = tls.VersionTLS13
	}
	if t.Max == "1.2" {
		cfg.MaxVersion = tls.VersionTLS12
	}
	if t.CACert != "" {
		pem, err := readPEM(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("cacert: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cacert: %s holds no certificate, want PEM with BEGIN CERTIFICATE", t.CACert)
		}
	}
	if t.Cert != "" {
		cert, err := readPEM(t.Cert)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		key, err := readPEM(t.Key)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert %s with key %s: %w", t.Cert, t.Key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// trustChild makes m.tls for the embedded target: its authority is trusted unless
// the workload names another.
func (m *measurement) trustChild() (err error) {
	if m.tls, err = m.setup.clientTLS(m.plan); err != nil || m.tls == nil {
		return err
	}
	if m.tls.RootCAs == nil {
		m.tls.RootCAs = x509.NewCertPool()
		m.tls.RootCAs.AppendCertsFromPEM([]byte(m.child.CA))
	}
	return nil
}

// tlsOf is m.tls with the name of the endpoint's server in it.
func (m *measurement) tlsOf(endpoint int) *tls.Config {
	if m.tls == nil || m.tls.ServerName != "" {
		return m.tls
	}
	cfg := m.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(m.site.Endpoints[endpoint].Name)
	return cfg
}

// maxPEM bounds a PEM file, in bytes.
const maxPEM = 16 << 20

// readPEM reads a file of certificates or keys.
func readPEM(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file", name)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case info.Size() > maxPEM:
		return nil, fmt.Errorf("%s is %d bytes long, want at most %d", name, info.Size(), maxPEM)
	}
	return os.ReadFile(name)
}
