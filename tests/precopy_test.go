// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/passes"
)

// TestPrecopy migrates a VM again and again, while its programs compute all the time. Its device
// memory goes ahead, and what has changed since goes with the VM.
func TestPrecopy(t *testing.T) {
	needsReleases(t)
	rounds, image := migrations(t, 2, 8), keepingRoot(t)
	inReleases(t, migrators, "11", func(t *testing.T, version string) {
		m := newMoving(t, version, image)
		pki := authority(t)
		for range rounds {
			m.ahead(pki)
			m.compute()
		}
		m.fallsBack(pki)
		m.compute()
	})
}

// helper is a command that runs in the background.
type helper struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
	end chan struct{}
}

// beside starts a command of paracuda's in the background.
func (m *moving) beside(words ...string) *helper {
	m.t.Helper()
	log, err := os.CreateTemp(logDir(m.t), "precopy-*.log")
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	h := &helper{m.t, exec.Command(paracuda, words...), log.Name(), make(chan struct{})}
	h.cmd.Stdout, h.cmd.Stderr = log, log
	if err := h.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		_ = h.cmd.Wait()
		close(h.end)
	}()
	m.t.Cleanup(h.kill)
	return h
}

func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	<-h.end
}

func (h *helper) said() string {
	b, _ := os.ReadFile(h.log)
	return string(b)
}

// says waits until the output matches a pattern, and returns its last group, or the match.
func (h *helper) says(pattern string) string {
	h.t.Helper()
	re := regexp.MustCompile(pattern)
	for w := patienceOf(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if found := re.FindStringSubmatch(h.said()); found != nil {
			return found[len(found)-1]
		}
		if w.over() {
			h.t.Fatalf("%q doesn't say %q:%s", h.cmd.Args, pattern, tail(h.said()))
		}
	}
}

// isRefused says whether it ends because the VM's memory goes elsewhere already; otherwise it has
// sent a first copy.
func (h *helper) isRefused() bool {
	h.t.Helper()
	for w := patienceOf(time.Minute); !w.over(); time.Sleep(20 * time.Millisecond) {
		switch text := h.said(); {
		case strings.Contains(text, "a first copy is there"):
			return false
		case strings.Contains(text, passes.ErrBusy.Error()):
			h.ends(1)
			return true
		}
	}
	h.t.Fatalf("%q sends nothing:%s", h.cmd.Args, tail(h.said()))
	return false
}

// ends waits until the command ends with an exit code.
func (h *helper) ends(status int) {
	h.t.Helper()
	for w := patienceOf(time.Minute); !w.over(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-h.end:
			if got := h.cmd.ProcessState.ExitCode(); got != status {
				h.t.Fatalf("%q: exit code %d, want %d:%s", h.cmd.Args, got, status, tail(h.said()))
			}
			return
		default:
		}
	}
	h.t.Fatalf("%q doesn't end:%s", h.cmd.Args, tail(h.said()))
}

// aheadOf connects the VM's device process with that of the destination, by the commands in
// docs/suspend.md. If a connection was killed before, the device process may not have noticed yet,
// and refuses another one.
func (m *moving) aheadOf(pki string) (here, there *helper) {
	m.t.Helper()
	for w := patienceOf(time.Minute); !w.over(); {
		if here, there = m.connectAhead(pki); !here.isRefused() {
			return here, there
		}
		there.kill()
	}
	m.t.Fatal("the device process doesn't notice that a connection is gone")
	return nil, nil
}

func (m *moving) connectAhead(pki string) (here, there *helper) {
	m.t.Helper()
	first, second, _ := strings.Cut(codeBlock(m.t, "docs/suspend.md", "paracuda precopy"), "\n")
	second, _, _ = strings.Cut(second, "\n")
	as := func(line string, with ...string) *helper {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(strings.NewReplacer(with...).Replace(line))
		return m.beside(append(words[1:], "--tls-dir", pki)...)
	}
	there = as(first, ":4445", "127.0.0.1:0", "/run/there.control", m.control)
	address := there.says(`waits at (.*)`)
	return as(second, "there:4445", address, "/run/here.control", m.before), there
}

// ahead migrates the VM while it runs, after its device memory.
func (m *moving) ahead(pki string) {
	m.t.Helper()
	m.insist(func() bool {
		g, device := m.g, m.device
		line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
		m.start("-incoming", line)
		m.g.answers()
		here, there := m.aheadOf(pki)
		here.says(`a first copy is there, of (\d+) bytes`)
		if moved := m.send(g, device, line); !moved {
			here.kill()
			there.kill()
			m.leave(m.g, m.device)
			m.g, m.device, m.control = g, device, m.before
			return false
		}
		there.ends(0)
		here.ends(0)
		sent := here.says(`the VM has been sent: (\d+) bytes`)
		m.mostWent(device)
		m.t.Logf("%s bytes went ahead", sent)
		m.leave(g, device)
		return true
	})
	m.g.runs()
}

// mostWent wants most of the device memory to have gone ahead of the VM.
func (m *moving) mostWent(device *served) {
	m.t.Helper()
	re := regexp.MustCompile(`device memory went ahead.*ahead=(\d+).*with=(\d+)`)
	found := re.FindStringSubmatch(device.said(m.t))
	if found == nil {
		m.t.Fatalf("the log has no line \"device memory went ahead\":%s", tail(device.said(m.t)))
	}
	ahead, _ := strconv.Atoi(found[1])
	with, _ := strconv.Atoi(found[2])
	m.t.Logf("%d bytes went ahead, %d with the VM", ahead, with)
	if with == 0 || ahead < 2*with {
		m.t.Errorf("%d bytes went ahead, %d with the VM, want some, and twice as many ahead", ahead,
			with)
	}
}

// fallsBack runs precopy to a host that can't be reached, and with a connection that breaks. Then
// the VM is migrated with all its memory.
func (m *moving) fallsBack(pki string) {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	none := m.beside("precopy", "--migrate-to", nobody, "--tls-dir", pki, m.control)
	none.ends(1)
	if !strings.Contains(none.said(), "all device memory will be migrated with the VM") {
		m.t.Errorf("precopy to nobody: want that all memory will go with the VM:%s",
			tail(none.said()))
	}
	m.insist(func() bool {
		g, device := m.g, m.device
		line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
		m.start("-incoming", line)
		m.g.answers()
		here, there := m.aheadOf(pki)
		here.says(`a first copy is there, of (\d+) bytes`)
		m.goesOnce(pki)
		there.kill()
		here.ends(1)
		device.expect(m.t, "device memory that went ahead is of no use")
		if moved := m.send(g, device, line); !moved {
			m.leave(m.g, m.device)
			m.g, m.device, m.control = g, device, m.before
			return false
		}
		m.leave(g, device)
		return true
	})
	m.g.runs()
}

// goesOnce wants the memory of a VM to go to one place at a time.
func (m *moving) goesOnce(pki string) {
	m.t.Helper()
	second, waiting := m.connectAhead(pki)
	if !second.isRefused() {
		m.t.Fatal("the memory of one VM is copied to two places at the same time")
	}
	waiting.kill()
}

// authority makes a folder with certificates for 127.0.0.1, as QEMU wants them.
func authority(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, kind string, der []byte) {
		b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root := key()
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &root.PublicKey, root)
	if err != nil {
		t.Fatal(err)
	}
	write("ca-cert.pem", "CERTIFICATE", der)
	for i, role := range []string{"server", "client"} {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(2 + i)), Subject: pkix.Name{CommonName: role},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{
				[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}[i]},
		}
		k := key()
		if der, err = x509.CreateCertificate(rand.Reader, c, ca, &k.PublicKey, root); err != nil {
			t.Fatal(err)
		}
		write(role+"-cert.pem", "CERTIFICATE", der)
		if der, err = x509.MarshalPKCS8PrivateKey(k); err != nil {
			t.Fatal(err)
		}
		write(role+"-key.pem", "PRIVATE KEY", der)
	}
	return dir
}
