package otlptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// discardLog keeps failed handshakes, which tests provoke, from the output.
var discardLog = log.New(io.Discard, "", 0)

// A CA is a certificate authority of one test.
type CA struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dir  string
}

// NewCA makes an authority. Its files are removed with the test.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{tb: tb, dir: tb.TempDir()}
	ca.key, ca.cert = ca.issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "test authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	return ca
}

// File returns the name of a PEM file with the authority's certificate.
func (ca *CA) File() string {
	return ca.write("ca.pem", "CERTIFICATE", ca.cert.Raw)
}

// ServerTLS returns the configuration of a server for localhost. With
// clientCerts, it wants clients to have certificates of the authority.
func (ca *CA) ServerTLS(clientCerts bool) *tls.Config {
	ca.tb.Helper()
	key, cert := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
	}
	if clientCerts {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AddCert(ca.cert)
	}
	return c
}

// ClientFiles returns the names of PEM files with a client's certificate and
// its key.
func (ca *CA) ClientFiles() (cert, key string) {
	ca.tb.Helper()
	k, c := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		ca.tb.Fatal(err)
	}
	return ca.write("client.pem", "CERTIFICATE", c.Raw), ca.write("client.key", "PRIVATE KEY", der)
}

// issue completes and signs a certificate: by itself if the authority has none
// yet.
func (ca *CA) issue(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	ca.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.tb.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		ca.tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.tb.Fatal(err)
	}
	return key, cert
}

func (ca *CA) write(name, kind string, der []byte) string {
	ca.tb.Helper()
	name = filepath.Join(ca.dir, name)
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.tb.Fatal(err)
	}
	return name
}
