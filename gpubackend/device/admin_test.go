// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/turns"
	"github.com/paracuda/paracuda/gpubackend/wire"
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

// FuzzAdmin sets anything. What is refused changes nothing. What is accepted changes the setting
// that it names and no other, lies within its bounds, and can be set again as it reads back.
// Nothing changes what holds from the start.
func FuzzAdmin(f *testing.F) {
	for _, s := range []string{"batch-commands=1", "memory=8G", "arena=1T", "x", "=",
		"spin-host=1h", "spin-guest=1s", "staging=K", "address-mapping=maybe", "soft-lost=63",
		"batch-bytes=0", "channels=65", "idle-time=never", "stop-grace=1m",
		"time-limit=1", "weight=1", "turn=1s",
		"soft-memory=1G", "memory-guarantee=1T", "graph-replay=off", "suspend-keep=1E"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := New(Config{GPU: "soft", Settings: settings.Default(), Log: quiet()})
		before, values := *d.settings.Now(), d.settings.Values()
		if err := d.Set(text); err != nil {
			if *d.settings.Now() != before {
				t.Fatalf("%q was refused and changed the device", text)
			}
			return
		}
		now := *d.settings.Now()
		if now.Space.Channels != before.Space.Channels ||
			now.Space.ArenaBytes != before.Space.ArenaBytes {
			t.Fatalf("%q changed what holds from the start", text)
		}
		key, _, _ := strings.Cut(text, "=")
		for k, v := range d.settings.Values() {
			if k != key && v != values[k] {
				t.Fatalf("%q made %s %s, which was %s", text, k, v, values[k])
			}
		}
		if what := outside(&now.Settings); what != "" {
			t.Fatalf("%q was accepted: %s", text, what)
		}
		again := key + "=" + d.settings.Values()[key]
		if err := d.Set(again); err != nil || d.settings.Now().Settings != now.Settings {
			t.Fatalf("%q reads back as %q, which sets something else: %v", text, again, err)
		}
	})
}

// outside says which setting lies outside of what the device's other parts can bear.
func outside(s *settings.Settings) string {
	space, policy := &s.Space, &s.Policy
	for _, x := range []struct {
		what            string
		is, least, most uint64
	}{
		{"batch-commands", uint64(space.BatchCommands), 1, 1 << 16},
		{"batch-bytes", uint64(space.BatchBytes), 64, wire.RingBytes / 2},
		{"batch-delay", uint64(space.BatchDelayUs), 0, 1e6},
		{"spin-guest", uint64(space.SpinGuestUs), 0, 1e6},
		{"spin-host", uint64(space.SpinHostUs), 0, 1e6},
		{"inline-limit", uint64(space.InlineLimit), 0, 256 << 20},
		{"warm-workers", uint64(s.WarmWorkers + 1), 0, wire.MaxChannels + 1}, // -1: by default
		{"idle-time", uint64(s.IdleTime), 0, uint64(24 * time.Hour)},
		{"starts", uint64(s.Starts), 0, 10000},
		{"stop-grace", uint64(s.StopGrace), uint64(time.Second / 10), uint64(time.Minute)},
		{"suspend-memory", s.SuspendMemory, 0, math.MaxInt64},
		{"suspend-keep", s.SuspendKeep, 0, math.MaxInt64},
		{"staging", policy.StagingBytes, 1 << 20, 1 << 30},
		{"memory", s.Memory, 0, math.MaxInt64},
		{"memory-guarantee", s.Guarantee, 0, s.MemoryBound("soft")},
		{"processes", uint64(s.Processes), 0, wire.MaxChannels},
		{"host-memory", policy.HostMemory, 0, math.MaxUint64},
		{"vm-host-memory", s.HostMemory, 0, math.MaxInt64},
		{"soft-memory", policy.SoftMemory, 64 << 20, 1 << 40},
		{"soft-lost", uint64(policy.SoftLost), 0, hostgpus.MostSoft},
		{"weight", uint64(s.Time.Weight), 1, turns.MaxWeight},
		{"time-limit", uint64(s.Time.Limit), 1, turns.MaxLimit},
	} {
		if x.is < x.least || x.is > x.most {
			return fmt.Sprintf("%s is %d, not %d to %d", x.what, x.is, x.least, x.most)
		}
	}
	return ""
}
