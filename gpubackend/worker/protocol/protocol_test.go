// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// held are maps by number, without those that were given back.
type held map[uint32]*maps.Map

func (h held) Find(id uint32) *maps.Map { return h[id] }
func (h held) Give(m *maps.Map)         { delete(h, m.ID) }

// rig is a Protocol whose log is a text. Map 2 is pinned.
type rig struct {
	*Protocol
	held
	log   strings.Builder
	ended []uint16
	bulk  []byte
	call  call.Call
}

func newRig() *rig {
	r := &rig{held: held{1: {ID: 1}, 2: {ID: 2}}, bulk: make([]byte, 256)}
	l := logrus.New()
	l.SetOutput(&r.log)
	r.Protocol = New(Config{
		Maps: r.held, Holds: func(m *maps.Map) bool { return m.ID == 2 },
		EndThread: func(slot uint16) { r.ended = append(r.ended, slot) },
		Log:       logrus.NewEntry(l),
	})
	r.call = call.New(&call.Buffers{
		Bulk:   func(_, n uint64) ([]byte, error) { return r.bulk[:n], nil },
		Copied: func(uint64) {},
	})
	return r
}

func (r *rig) do(op uint16, slot uint16, words ...uint64) gpubackend.Result {
	command := &arena.Command{N: len(words)}
	command.Slot = slot
	copy(command.Words[:], words)
	r.call.Start(command)
	return r.Handlers()[gpubackend.Op(op)].Run(&r.call)
}

// TestUnmap: a map goes once, and not while it is pinned.
func TestUnmap(t *testing.T) {
	r := newRig()
	for i, tt := range []struct {
		id   uint64
		want gpubackend.Result
	}{{1, 0}, {1, gpubackend.InvalidValue}, {2, gpubackend.NotPermitted},
		{3, gpubackend.InvalidValue}} {
		if got := r.do(wire.OpUnmap, 0, tt.id); got != tt.want {
			t.Errorf("step %d: %v, want %v", i, got, tt.want)
		}
	}
	if len(r.held) != 1 {
		t.Errorf("%d maps are left", len(r.held))
	}
}

// TestReport: a missing function is logged, unless its name is longer than any function's.
func TestReport(t *testing.T) {
	for name, logged := range map[string]bool{
		"cuSomething": true, strings.Repeat("x", maxName+1): false,
	} {
		r := newRig()
		copy(r.bulk, name)
		result := r.do(wire.OpReport, 0, wire.BufferBulk<<56, uint64(len(name)))
		if result != 0 || strings.Contains(r.log.String(), name) != logged {
			t.Errorf("%.20s: %v, log %q", name, result, r.log.String())
		}
	}
}

func TestThreadExit(t *testing.T) {
	r := newRig()
	if result := r.do(wire.OpThreadExit, 7); result != 0 || len(r.ended) != 1 || r.ended[0] != 7 {
		t.Errorf("%v, ended %v", result, r.ended)
	}
}

// TestUnknown: each number is logged once, and no more than mostUnknown of them are.
func TestUnknown(t *testing.T) {
	r := newRig()
	for range 2 {
		for op := range gpubackend.Op(2 * mostUnknown) {
			r.Unknown(op)
		}
	}
	if n := strings.Count(r.log.String(), "is not implemented"); n != mostUnknown {
		t.Errorf("%d lines", n)
	}
}
