// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

// authority is one that gives certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	der  []byte
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	a.der, err = x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// folder has certificates of its, which are change'd before they are given.
func (a *authority) folder(change func(*x509.Certificate)) folder {
	a.t.Helper()
	dir := a.t.TempDir()
	write := func(name, kind string, der []byte) {
		b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	write("ca-cert.pem", "CERTIFICATE", a.der)
	for role, use := range map[string]x509.ExtKeyUsage{
		"server": x509.ExtKeyUsageServerAuth, "client": x509.ExtKeyUsageClientAuth,
	} {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: role},
			NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, DNSNames: []string{"there"},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		}
		change(c)
		k := newKey(a.t)
		der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
		if err != nil {
			a.t.Fatal(err)
		}
		write(role+"-cert.pem", "CERTIFICATE", der)
		if der, err = x509.MarshalPKCS8PrivateKey(k); err != nil {
			a.t.Fatal(err)
		}
		write(role+"-key.pem", "PRIVATE KEY", der)
	}
	return folder(dir)
}

func asItIs(*x509.Certificate) {}

// waiting is a destination that waits.
type waiting struct {
	address string
	mu      sync.Mutex
	refused []string
	came    chan *tls.Conn
}

func wait(t *testing.T, f folder) *waiting {
	t.Helper()
	c, err := f.server()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{address: l.Addr().String(), came: make(chan *tls.Conn, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := accept(l, c, func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, err.Error())
		})
		if err != nil {
			conn = nil
		}
		w.came <- conn
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return w
}

// refusals waits until so many were refused.
func (w *waiting) refusals(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		got := len(w.refused)
		w.mu.Unlock()
		if got >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d were refused", got)
		}
	}
}

// try connects as a source would, and says whether it was taken for one.
func try(address string, c *tls.Config) error {
	conn, err := dial(context.Background(), address, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	// With TLS 1.3 a client learns only by reading that its certificate isn't taken.
	_, err = conn.Read(make([]byte, 1))
	return err
}

// TestWhoIsTaken: one with a certificate of the same authority, and nobody else, whoever is there
// before it and says nothing.
func TestWhoIsTaken(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	good := a.folder(asItIs)
	w := wait(t, good)
	idle, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	client := func(f folder, host string) *tls.Config {
		c, err := f.client(host)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	bare := client(good, "there")
	bare.Certificates = nil
	stranger := client(other.folder(asItIs), "there")
	stranger.RootCAs = bare.RootCAs
	wrongUse := client(a.folder(func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}), "there")
	late := client(a.folder(func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(-time.Minute)
	}), "there")
	old := client(good, "there")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	otherwise := client(good, "there")
	otherwise.NextProtos = nil
	refused := 0
	for name, c := range map[string]*tls.Config{
		"one without a certificate": bare, "one of another authority": stranger,
		"a server's certificate": wrongUse, "one that is over": late, "an old version": old,
		"another protocol": otherwise,
		"another host":     client(good, "elsewhere"),
	} {
		if err := try(w.address, c); err == nil {
			t.Errorf("%s is taken", name)
		}
		refused++
	}
	plain, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(plain, "GET / HTTP/1.0\r\n\r\n")
	_ = plain.Close()
	w.refusals(t, refused+1)
	select {
	case <-w.came:
		t.Fatal("somebody was taken")
	default:
	}
	conn, err := dial(context.Background(), w.address, client(good, "there"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if there := <-w.came; there == nil {
		t.Error("the right one isn't taken")
	} else {
		_ = there.Close()
	}
}

// TestServerThatIsnt: a source doesn't talk to one that has no certificate of its authority.
func TestServerThatIsnt(t *testing.T) {
	a := newAuthority(t)
	w := wait(t, newAuthority(t).folder(asItIs))
	c, err := a.folder(asItIs).client("there")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(context.Background(), w.address, c); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("%v", err)
	}
}

// TestBadFolders are refused with the file's name.
func TestBadFolders(t *testing.T) {
	a := newAuthority(t)
	for _, name := range []string{"ca-cert.pem", "client-cert.pem", "client-key.pem"} {
		for _, content := range []string{"", "nonsense"} {
			f := a.folder(asItIs)
			path := filepath.Join(string(f), name)
			if content == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := f.client("there"); err == nil ||
				!strings.HasPrefix(err.Error(), "--tls-dir: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestRelay: what is said on either side gets to the other one, to the last byte, and ends.
func TestRelay(t *testing.T) {
	a := newAuthority(t).folder(asItIs)
	w := wait(t, a)
	c, err := a.client("there")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(context.Background(), w.address, c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := relay(<-w.came)
	if err != nil {
		t.Fatal(err)
	}
	const much = 3 << 20
	go func() { _, _ = conn.Write(make([]byte, much)) }()
	if n, err := io.CopyN(io.Discard, r.far, much); n != much {
		t.Fatalf("%d bytes came: %v", n, err)
	}
	if _, err := r.far.WriteString("the last"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		r.end()
		close(ended)
	}()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "the last" {
		t.Errorf("%q, %v", b, err)
	}
	_ = conn.Close()
	<-ended
}

// TestOptions that contradict each other, or are wrong.
func TestOptions(t *testing.T) {
	for _, o := range []options{
		{}, {to: "a:1", from: "b:1"}, {from: "b:1", host: "x"}, {to: "nonsense"},
	} {
		if err := o.run("/none"); cli.Status(err) != 2 {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := options{to: "127.0.0.1:1", dir: t.TempDir()}
	if err := o.run("/none"); err == nil || !strings.Contains(err.Error(), "--tls-dir") {
		t.Errorf("%v", err)
	}
}
