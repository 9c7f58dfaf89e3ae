package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certified is how long a generated certificate is good for, in both directions
// from now: clocks of two machines differ.
const certified = 30 * 24 * time.Hour

// Authority signs certificates for servers and callers. Its key exists in memory
// only, and ends with the process.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority generates an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the authority's key: %w", err)
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "latencylab target, for this run only"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := sign(t, t, key, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &Authority{cert, key}, nil
}

// PEM returns the authority's certificate, which a caller is to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Leaf says what a certificate is to say.
type Leaf struct {
	// Names are the host names and IP addresses that it is for.
	Names []string
	// From and Until are its validity. Zero values mean about now, give or take a
	// month.
	From, Until time.Time
}

// Issue returns a certificate with a key of its own that the authority has
// signed, for servers and callers.
func (a *Authority) Issue(l Leaf) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a key: %w", err)
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "latencylab target"}, NotBefore: l.From, NotAfter: l.Until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range l.Names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := sign(t, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// sign completes the certificate t of key and signs it.
func sign(t, by *x509.Certificate, key, signer *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	t.SerialNumber = serial
	if t.NotBefore.IsZero() {
		t.NotBefore = time.Now().Add(-certified)
	}
	if t.NotAfter.IsZero() {
		t.NotAfter = time.Now().Add(certified)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}
