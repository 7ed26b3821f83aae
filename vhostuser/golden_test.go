// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// goldenLine is a message of a session log, in the form that Options.Trace writes.
type goldenLine struct {
	dir   byte
	fds   int
	bytes []byte
}

// parseGolden reads a session log.
func parseGolden(text string) (queues int, features uint64, lines []goldenLine, err error) {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "device ") {
			if _, err := fmt.Sscanf(line, "device queues=%d features=%v", &queues,
				&features); err != nil {
				return 0, 0, nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			continue
		}
		fields := strings.Fields(line)
		g := goldenLine{dir: fields[0][0]}
		fields = fields[2:]
		if len(fields) > 0 && strings.HasPrefix(fields[0], "fds=") {
			if _, err := fmt.Sscanf(fields[0], "fds=%d", &g.fds); err != nil {
				return 0, 0, nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			fields = fields[1:]
		}
		if g.bytes, err = hex.DecodeString(strings.Join(fields, "")); err != nil ||
			len(g.bytes) < 12 {
			return 0, 0, nil, fmt.Errorf("line %d: no message: %w", n+1, err)
		}
		lines = append(lines, g)
	}
	return queues, features, lines, nil
}

// goldenFDs makes descriptors of the kind that a message carries.
func goldenFDs(tb testing.TB, g goldenLine) []int {
	tb.Helper()
	var fds []int
	for i := range g.fds {
		switch vhostuser.Request(binary.NativeEndian.Uint32(g.bytes)) {
		case vhostuser.SetMemTable, vhostuser.AddMemReg, vhostuser.RemMemReg:
			region := g.bytes[20+32*i:]
			size := binary.NativeEndian.Uint64(region[8:]) + binary.NativeEndian.Uint64(region[24:])
			fds = append(fds, vt.MemFD(tb, size))
		case vhostuser.SetBackendReqFD:
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) })
			fds = append(fds, pair[0])
		case vhostuser.SetLogBase:
			log := g.bytes[12:]
			size := binary.NativeEndian.Uint64(log) + binary.NativeEndian.Uint64(log[8:])
			fds = append(fds, vt.MemFD(tb, size))
		case vhostuser.SetInFlightFD:
			v := DecodeInFlight(g.bytes[12:])
			fds = append(fds, vt.MemFD(tb, v.Offset+v.Size))
		case vhostuser.SetDeviceStateFD:
			r, w := pipe(tb)
			if binary.NativeEndian.Uint32(g.bytes[12:]) == vhostuser.StateSave {
				fds = append(fds, int(w.Fd()))
			} else { // the state is empty
				fds = append(fds, int(r.Fd()))
				_ = w.Close()
			}
		default:
			fds = append(fds, Eventfd(tb))
		}
	}
	return fds
}

// compared returns the part of a reply that doesn't depend on what the device had to say.
func compared(b []byte) []byte {
	switch vhostuser.Request(binary.NativeEndian.Uint32(b)) {
	case vhostuser.GetConfig:
		return b[:min(len(b), 24)]
	case vhostuser.GetVringBase:
		return b[:min(len(b), 16)]
	}
	return b
}

// TestGolden replays session logs: every message of the front end is sent, and every reply must be
// the one in the log. A test run never writes these files; they are reviewed by hand.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, string(text))
		})
	}
}

// replay plays one log.
func replay(t *testing.T, text string) {
	queues, features, lines, err := parseGolden(text)
	if err != nil {
		t.Fatal(err)
	}
	dev := NewDevice(t, queues)
	dev.Bits = features
	r := newRigWith(t, served(dev, lines), dev, vhostuser.Options{})
	for i, g := range lines {
		switch g.dir {
		case '<':
			var oob []byte
			if fds := goldenFDs(t, g); len(fds) > 0 {
				oob = unix.UnixRights(fds...)
			}
			if _, _, err := r.Sock.WriteMsgUnix(g.bytes, oob, nil); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		case '>':
			m, err := r.Conn.Read()
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if got := m.AppendTo(nil); !bytes.Equal(compared(got), compared(g.bytes)) ||
				len(got) != len(g.bytes) {
				t.Errorf("message %d: reply\n% x, want\n% x", i, got, g.bytes)
			}
			if len(m.FDs) != g.fds {
				t.Errorf("message %d: reply with %d descriptors, want %d", i, len(m.FDs), g.fds)
			}
			for _, fd := range m.FDs {
				_ = fd.Close()
			}
		}
	}
	r.sync()
	if r.s.Panics() != 0 {
		t.Errorf("the device panicked %d times", r.s.Panics())
	}
}

// served is a device that offers what the one in a log did.
func served(dev *Device, lines []goldenLine) vhostuser.Device {
	migrates := false
	for _, g := range lines {
		request := vhostuser.Request(binary.NativeEndian.Uint32(g.bytes))
		if g.dir != '>' || len(g.bytes) < 20 {
			continue
		}
		switch offered := binary.NativeEndian.Uint64(g.bytes[12:]); {
		case request == vhostuser.GetFeatures:
			migrates = migrates || offered&logAll != 0
		case request == vhostuser.GetProtocolFeatures && offered&vhostuser.ProtocolInFlight != 0:
			return NewTracking(dev)
		}
	}
	if migrates {
		return &Migrating{Device: dev}
	}
	return dev
}

// A trace can be replayed, so a log that is captured from a real front end becomes a golden file
// as it is.
func TestTraceReplays(t *testing.T) {
	t.Parallel()
	var log logBuffer
	r := newRig(t, 2, vhostuser.Options{Trace: &log})
	r.MustSend(vhostuser.SetFeatures, Word(r.Realize(2)))
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib}, vt.Span{Addr: 0x100000000, Size: mib})
	r.AddMemory(g)
	qs := []*Queue{NewQueue(t, g, 0, 64), NewQueue(t, g, 1, 64)}
	r.Start(qs...)
	if _, err := r.Config(64); err != nil {
		t.Fatal(err)
	}
	if err := r.s.ConfigChanged(); err != nil {
		t.Fatal(err)
	}
	r.Stop(qs...)
	if err := r.Send(1234, nil); err == nil {
		t.Error("request 1234 was accepted")
	}
	r.sync()
	text := log.String()
	for _, want := range []string{
		"device queues=2 features=0x0\n",
		"< SET_VRING_KICK fds=1 0c 00 00 00 09 00 00 00 08 00 00 00 01 00 00 00 00 00 00 00\n",
		"! BACKEND_REQUEST_2 02 00 00 00 01 00 00 00 00 00 00 00\n",
		"< REQUEST_1234 d2 04 00 00 09 00 00 00 00 00 00 00\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace lacks %q", want)
		}
	}
	replay(t, text)
	if path := os.Getenv("TRACE_OUT"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}
