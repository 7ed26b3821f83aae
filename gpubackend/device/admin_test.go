// SPDX-License-Identifier: Apache-2.0

package device

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

func newAdmin(t testing.TB) (*Device, string) {
	t.Helper()
	d := New(Config{GPU: "soft", Settings: settings.Default(), Spawn: &stubs{}, Log: quiet()})
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveAdmin(t, d, l)
	return d, path
}

func serveAdmin(t testing.TB, d *Device, l net.Listener) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.ServeAdmin(l)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
}

// fullListener has no descriptor left for the first connection.
type fullListener struct {
	net.Listener
	failed bool
}

func (l *fullListener) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestAdminOutlivesAcceptErrors(t *testing.T) {
	d := New(Config{GPU: "soft", Settings: settings.Default(), Spawn: &stubs{}, Log: quiet()})
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveAdmin(t, d, &fullListener{Listener: l})
	if _, err := admin.Ask(path, admin.Request{Stats: true}); err != nil {
		t.Error(err)
	}
}

func TestAdminHostile(t *testing.T) {
	_, path := newAdmin(t)
	for _, text := range []string{
		"", "\n", "{\n", "null\n", "[]\n", "\x00\xff\n", `{"set":"x"}` + "\n",
		`{"set":"memory=-1"}` + "\n", `{"set":"=\u0000"}` + "\n",
		`{"set":"channels=3"}` + "\n", `{"set":7}` + "\n", strings.Repeat("[", 4000) + "\n",
		strings.Repeat("x", 1<<16),
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(soon))
		_, _ = io.WriteString(c, text)
		_ = c.(*net.UnixConn).CloseWrite()
		_, _ = io.ReadAll(c)
		_ = c.Close()
		if a, err := admin.Ask(path, admin.Request{Stats: true}); err != nil || a.Stats == nil {
			t.Fatalf("after %.20q: %v", text, err)
		}
	}
	if _, err := admin.Ask(path, admin.Request{Set: "batch-commands=1"}); err != nil {
		t.Fatal(err)
	}
}

// FuzzAdmin sets anything. What is refused changes nothing, and nothing changes what holds from the
// start.
func FuzzAdmin(f *testing.F) {
	for _, s := range []string{"batch-commands=1", "memory=8G", "arena=1T", "x", "=",
		"spin-host=1h", "staging=K", "address-mapping=maybe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := New(Config{Settings: settings.Default(), Log: quiet()})
		before := *d.settings.Told()
		if err := d.Set(text); err != nil && *d.settings.Told() != before {
			t.Fatalf("%q was refused and changed the device", text)
		}
		now := d.settings.Told()
		if now.Channels != before.Channels || now.ArenaBytes != before.ArenaBytes {
			t.Fatalf("%q changed what holds from the start", text)
		}
	})
}
