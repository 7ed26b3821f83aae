// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// TestSnapshotIsNotBelieved: what no session can have had is refused, and nothing is taken.
func TestSnapshotIsNotBelieved(t *testing.T) {
	t.Parallel()
	r, qs := withMemory(t)
	r.Start(qs...)
	r.MustQuery(vhostuser.GetFeatures)
	good := r.take()
	defer good.Close()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	dup, err := unix.Dup(int(null.Fd()))
	_ = null.Close()
	if err != nil {
		t.Fatal(err)
	}
	odd := vhostuser.NewFD(dup)
	defer func() { _ = odd.Close() }()
	for name, spoil := range map[string]func(p *vhostuser.Snapshot){
		"not offered":  func(p *vhostuser.Snapshot) { p.Features |= 1 << 50 },
		"protocol":     func(p *vhostuser.Snapshot) { p.Protocol |= 1 << 50 },
		"too few has":  func(p *vhostuser.Snapshot) { p.Rings = p.Rings[:1] },
		"2 queues":     func(p *vhostuser.Snapshot) { p.Rings = append(p.Rings, p.Rings[0]) },
		"entries":      func(p *vhostuser.Snapshot) { p.Rings[1].Size = 7 },
		"by nobody":    func(p *vhostuser.Snapshot) { p.Rings[1].HasEnabled = false },
		"not said":     func(p *vhostuser.Snapshot) { p.Rings[1].HasAddr = false },
		"of ring 0":    func(p *vhostuser.Snapshot) { p.Rings[1].Addr.Index = 0 },
		"ring flags":   func(p *vhostuser.Snapshot) { p.Rings[1].Addr.Flags = 2 },
		"no eventfd":   func(p *vhostuser.Snapshot) { p.Rings[1].Kick = odd },
		"neither":      func(p *vhostuser.Snapshot) { p.Channel = odd },
		"is no memory": func(p *vhostuser.Snapshot) { p.Memory[0].FD = odd },
		"the file has": func(p *vhostuser.Snapshot) { p.Memory[0].Size += 4096 },
		"overlap":      func(p *vhostuser.Snapshot) { p.Memory = append(p.Memory, p.Memory[0]) },
		"log: ": func(p *vhostuser.Snapshot) {
			p.Log = vhostuser.FileSpan{Size: 8, FD: odd}
		},
		"mode 020666 is": func(p *vhostuser.Snapshot) { p.LogCall = odd },
		"cover": func(p *vhostuser.Snapshot) {
			p.Log = vhostuser.FileSpan{Size: 8, FD: p.Memory[0].FD}
		},
		"record: ": func(p *vhostuser.Snapshot) { p.RecordFD = odd },
		"of 4 times 8": func(p *vhostuser.Snapshot) {
			p.RecordFD, p.Record.Queues, p.Record.QueueSize = p.Memory[0].FD, 4, 8
		},
		"message of": func(p *vhostuser.Snapshot) {
			p.Pending = &vhostuser.Message{FDs: make([]*vhostuser.FD, vhostuser.MaxFDs+1)}
		},
		"were shown": func(p *vhostuser.Snapshot) { p.Shown.Queues = 257 },
	} {
		p := *good
		p.Memory, p.Rings = slices.Clone(good.Memory), slices.Clone(good.Rings)
		spoil(&p)
		dev := NewTracking(NewDevice(t, 2))
		_, back := Pair(t)
		_, err := vhostuser.Restore(back, dev, vhostuser.Options{}, &p)
		if !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), name) && name != "too few has" &&
			name != "of 4 times 8" && name != "not offered" {
			t.Errorf("%s: %v", name, err)
		}
		if calls := dev.Calls(); len(calls) != 0 {
			t.Errorf("%s: the device heard %q", name, calls)
		}
	}
	if slices.ContainsFunc(good.Memory, func(m vhostuser.Region) bool { return m.FD.Int() < 0 }) {
		t.Error("a snapshot that was refused has lost a descriptor")
	}
}

// TestSnapshotInBytes: only what AppendTo writes is read, and a change of any bit is another
// snapshot or none.
func TestSnapshotInBytes(t *testing.T) {
	t.Parallel()
	r, qs := withMemory(t)
	r.Start(qs[0])
	r.MustQuery(vhostuser.GetFeatures)
	good := r.take()
	defer good.Close()
	good.Pending = &vhostuser.Message{Request: vhostuser.AddMemReg, Flags: vhostuser.FlagVersion,
		Payload: []byte("payload"), FDs: []*vhostuser.FD{good.Memory[0].FD}}
	b, fds := good.AppendTo(nil), good.FDs()
	for n := range b {
		if _, err := vhostuser.ParseSnapshot(b[:n], fds); !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Fatalf("%d bytes of %d: %v", n, len(b), err)
		}
	}
	if _, err := vhostuser.ParseSnapshot(append(b, 0), fds); err == nil {
		t.Error("a byte more is read")
	}
	swapped := append([]*vhostuser.FD{nil}, fds[1:]...)
	for _, other := range [][]*vhostuser.FD{nil, fds[1:], swapped} {
		if _, err := vhostuser.ParseSnapshot(b, other); !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Errorf("with %d descriptors: %v", len(other), err)
		}
	}
	refused := 0
	for i := range b {
		for j := range 8 {
			bad := slices.Clone(b)
			bad[i] ^= 1 << j
			p, err := vhostuser.ParseSnapshot(bad, fds)
			if err != nil {
				refused++
				continue
			}
			if !bytes.Equal(p.AppendTo(nil), bad) || reflect.DeepEqual(p, good) {
				t.Fatalf("bit %d of byte %d: read as %+v", j, i, p)
			}
		}
	}
	if refused < 96 {
		t.Errorf("%d changes were refused", refused)
	}
}

// TestDeviceThatRefuses: a device that doesn't take what another had ends the session, orderly.
func TestDeviceThatRefuses(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"features", "memory 1"} {
		r, qs := withMemory(t)
		r.Start(qs...)
		r.MustQuery(vhostuser.GetFeatures)
		dev := NewDevice(t, 2)
		dev.SetFail(func(c string) error {
			if strings.HasPrefix(c, call) {
				return errors.New("not this one")
			}
			return nil
		})
		_, back := Pair(t)
		s, err := vhostuser.Restore(back, NewTracking(dev), vhostuser.Options{}, r.take())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err == nil ||
			!strings.Contains(err.Error(), "resume session") {
			t.Errorf("%s: Run: %v", call, err)
		}
	}
}
