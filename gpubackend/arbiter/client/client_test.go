// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/arbitertest"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
)

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func config(t *testing.T, path, name string) Config {
	t.Helper()
	p, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return Config{Path: path, Name: name, GPUs: []link.GPU{{Name: "soft"}}, Page: p, Log: quiet()}
}

// await waits for something that happens soon.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestRunsWithoutAndFindsAnArbiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	a, b := config(t, path, "a"), config(t, path, "b")
	x, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Joined() || a.Page.State() != gate.Unshared {
		t.Errorf("without an arbiter the gate is %+v", a.Page.State())
	}
	stop := arbitertest.Serve(t, path)
	y, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	await(t, "both share", func() bool { return !a.Page.State().Free && !b.Page.State().Free })
	stop()
	await(t, "both run without", func() bool {
		return a.Page.State().Free && b.Page.State().Free
	})
	defer arbitertest.Serve(t, path)()
	await(t, "both share again", func() bool {
		return !a.Page.State().Free && !b.Page.State().Free
	})
}

func TestRequiredArbiter(t *testing.T) {
	c := config(t, filepath.Join(t.TempDir(), "arbiter"), "a")
	c.Required = true
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "paracuda arbiter") {
		t.Errorf("error %v", err)
	}
}

func TestRefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	defer arbitertest.Serve(t, path)()
	x, err := New(config(t, path, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for want, c := range map[string]Config{
		"own --name": config(t, path, "a"), "VM name": config(t, path, "a/b"),
	} {
		if _, err := New(c); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	c := config(t, path, "c")
	c.Policy = map[string]string{"weight": "0"}
	if _, err := New(c); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
}

// listen makes a socket where a test plays the arbiter, and returns it and its path.
func listen(t *testing.T) (l *net.UnixListener, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "arbiter")
	l, err := net.ListenUnix(link.Network, &net.UnixAddr{Name: path, Net: link.Network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

// TestArbiterThatStops plays an arbiter that was stopped by a signal: the connection stays open,
// but the beat has ended.
func TestArbiterThatStops(t *testing.T) {
	l, path := listen(t)
	c := config(t, path, "a")
	go func() {
		u, err := l.AcceptUnix()
		if err != nil {
			return
		}
		conn := link.New(u)
		var r link.Request
		fds, _ := conn.Receive(&r, 3)
		link.CloseFiles(fds)
		c.Page.Set(gate.State{}) // closed; no beat comes
		_ = conn.Send(&link.Answer{Version: link.Version})
	}()
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	await(t, "the gate opens", func() bool { return c.Page.State() == gate.Unshared })
}

// TestNobodyAnswers where an arbiter listens: a VM runs unshared, joins when one answers, and is
// refused if it requires one.
func TestNobodyAnswers(t *testing.T) {
	l, path := listen(t)
	a, b := config(t, path, "a"), config(t, path, "b")
	a.Page.Set(gate.State{}) // as an arbiter leaves it that stopped
	x, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Joined() || a.Page.State() != gate.Unshared {
		t.Errorf("joined: %t, the gate is %+v", x.Joined(), a.Page.State())
	}
	b.Required = true
	if y, err := New(b); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("an arbiter is required: error %v", err)
		if y != nil {
			y.Close()
		}
	}
	_ = l.Close()
	defer arbitertest.Serve(t, path)()
	await(t, "the VM joins", x.Joined)
}

// TestOtherVersion plays an arbiter of another version, which answers with its version alone.
func TestOtherVersion(t *testing.T) {
	l, path := listen(t)
	go func() {
		for {
			u, err := l.AcceptUnix()
			if err != nil {
				return
			}
			conn := link.New(u)
			var r link.Request
			fds, _ := conn.Receive(&r, 3)
			link.CloseFiles(fds)
			_ = conn.Send(&link.Answer{Version: link.Version + 1})
			conn.Close()
		}
	}()
	const want = "install the same paracuda for both"
	if _, err := New(config(t, path, "a")); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a VM: %v", err)
	}
	if _, err := List(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a command: %v", err)
	}
}

func TestNoPermission(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	defer arbitertest.Serve(t, path)()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // look as nobody, on this thread only
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Setfsuid(65534)
		defer unix.Setfsuid(0)
	}
	_, err := Dial(path)
	if err == nil || !strings.Contains(err.Error(), "member of the socket's group") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}
