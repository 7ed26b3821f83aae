// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// protocol is what both sides say that they are going to speak, so that another service with the
// same certificates, such as QEMU's own migration, isn't mistaken for this one.
const protocol = "paracuda-precopy/1"

const (
	handshake  = 10 * time.Second // how long one may take
	handshakes = 16               // how many go on at a time
)

// folder has certificates, by the names that QEMU (tls-creds-x509) and libvirt use.
type folder string

func (f folder) load(role string) (*tls.Config, *x509.CertPool, error) {
	name := func(file string) string { return filepath.Join(string(f), file) }
	text, err := os.ReadFile(name("ca-cert.pem"))
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-dir: %w: want a folder with ca-cert.pem, %s-cert.pem "+
			"and %[2]s-key.pem", err, role)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("--tls-dir: %s has no certificate", name("ca-cert.pem"))
	}
	own, err := tls.LoadX509KeyPair(name(role+"-cert.pem"), name(role+"-key.pem"))
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-dir: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own},
		NextProtos: []string{protocol},
	}, pool, nil
}

// client is the source's configuration, which knows the destination by its name.
func (f folder) client(host string) (*tls.Config, error) {
	c, pool, err := f.load("client")
	if err != nil {
		return nil, err
	}
	c.RootCAs, c.ServerName = pool, host
	return c, nil
}

// server is the destination's, which accepts any certificate of the same authority.
func (f folder) server() (*tls.Config, error) {
	c, pool, err := f.load("server")
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
	return c, nil
}

// dial connects to the destination.
func dial(ctx context.Context, address string, c *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, c)
	if err := greet(ctx, conn); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// greet makes a handshake, within a time limit.
func greet(ctx context.Context, c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if c.ConnectionState().NegotiatedProtocol != protocol {
		return errors.New("the other side doesn't speak " + protocol)
	}
	return nil
}

// accept waits for a source. Others may connect meanwhile and say nothing: they are dropped, and
// passed to refused.
func accept(l net.Listener, c *tls.Config, refused func(error)) (*tls.Conn, error) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer l.Close()
	came, failed := make(chan *tls.Conn), make(chan error, 1)
	turns := make(chan struct{}, handshakes)
	all.Go(func() {
		for {
			turns <- struct{}{}
			plain, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			all.Go(func() {
				defer func() { <-turns }()
				conn := tls.Server(plain, c)
				if err := greet(ctx, conn); err != nil {
					_ = plain.Close()
					if ctx.Err() == nil {
						refused(fmt.Errorf("%s: %w", plain.RemoteAddr(), err))
					}
					return
				}
				select {
				case came <- conn:
				case <-ctx.Done():
					_ = plain.Close()
				}
			})
		}
	})
	select {
	case conn := <-came:
		return conn, nil
	case err := <-failed:
		return nil, err
	}
}
