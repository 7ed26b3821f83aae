// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// FuzzDecode reads raw bytes as a stream of messages. Whatever was read makes the same bytes again,
// and nothing is read after a broken message.
func FuzzDecode(f *testing.F) {
	f.Add((&vhostuser.Message{Request: 1, Flags: 1}).AppendTo(nil))
	f.Add((&vhostuser.Message{Request: 9, Flags: 9, Payload: make([]byte, 40)}).AppendTo(nil))
	f.Add([]byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 5})
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 1<<16 {
			t.Skip("longer than a socket buffer")
		}
		front, back := Pair(t)
		if _, err := front.Write(stream); err != nil {
			t.Fatal(err)
		}
		_ = front.CloseWrite()
		c := vhostuser.NewConn(back, time.Minute)
		for rest := stream; ; {
			m, err := c.Read()
			if err != nil {
				if m != nil {
					t.Error("a message and an error without descriptors")
				}
				if errors.Is(err, io.EOF) && len(rest) != 0 {
					t.Errorf("a good end with %d bytes left", len(rest))
				}
				return
			}
			b := m.AppendTo(nil)
			if len(b) > len(rest) || string(b) != string(rest[:len(b)]) {
				t.Fatalf("read % x of % x", b, rest)
			}
			rest = rest[len(b):]
		}
	})
}

// FuzzMemoryTable compares NewMemory and Translate with a slow oracle that marks every page of
// small address spaces. Each region is four nibbles, in units of pages.
func FuzzMemoryTable(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 1, 1, 1, 1}, uint8(0), uint8(1))
	f.Add([]byte{0, 2, 4, 0, 1, 1, 9, 1}, uint8(4), uint8(2))
	f.Add([]byte{3, 0, 0, 0}, uint8(0), uint8(0))
	f.Add([]byte{3, 5, 0, 14}, uint8(0), uint8(5))
	f.Fuzz(func(t *testing.T, in []byte, user, n uint8) {
		const page, filePages = 4096, 16
		file := vhostuser.NewFD(dup(t, vt.MemFD(t, page*filePages)))
		defer file.Close()
		var regions []vhostuser.Region
		var gpa, uva [64]int // owner of each page, plus one
		valid := true
		for i := 0; i+4 <= len(in) && i < 32; i += 4 {
			v := [4]int{int(in[i] & 31), int(in[i+1] & 15), int(in[i+2] & 31), int(in[i+3] & 15)}
			regions = append(regions, vhostuser.Region{
				GuestAddr: uint64(v[0]) * page, Size: uint64(v[1]) * page,
				UserAddr: uint64(v[2]) * page, MmapOffset: uint64(v[3]) * page, FD: file,
			})
			valid = valid && v[1] != 0 && v[3]+v[1] <= filePages
			for k := range v[1] {
				valid = valid && gpa[v[0]+k] == 0 && uva[v[2]+k] == 0
				gpa[v[0]+k], uva[v[2]+k] = i/4+1, i/4+1
			}
		}
		m, err := vhostuser.NewMemory(regions)
		if (err == nil) != valid || (m == nil) != (err != nil) {
			t.Fatalf("NewMemory = %v, %v, want success %v", m, err, valid)
		}
		if err != nil {
			return
		}
		first, last := int(user)%32, int(user)%32+int(n)%16
		inside := uva[first] != 0
		for k := first; k <= last; k++ {
			inside = inside && uva[k] == uva[first]
		}
		got, err := m.Translate(uint64(first)*page+1, uint64(last-first)*page+7)
		if (err == nil) != inside {
			t.Fatalf("Translate of pages %d to %d: %v, want success %v", first, last, err, inside)
		}
		if r := regions[max(uva[first]-1, 0)%max(len(regions), 1):]; inside &&
			got != uint64(first)*page+1-r[0].UserAddr+r[0].GuestAddr {
			t.Fatalf("Translate = %#x", got)
		}
	})
}

// FuzzSession plays a grammar of messages, with real descriptors, mixed with raw ones. The device
// checks that the session keeps its promises, TestMain that nothing is left, and in the end the
// session must still answer.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0})
	f.Add([]byte{4, 1, 7, 1, 8, 1, 4, 0, 3, 1, 5, 0, 6, 0, 4, 1, 11, 0, 12, 0, 13, 0, 14, 0})
	f.Add([]byte{15, 0, 15, 255, 16, 9, 17, 3, 18, 2, 19, 1})
	f.Add([]byte{24, 0, 25, 0, 24, 1, 0, 1, 25, 0, 24, 9, 11, 0, 24, 2, 24, 4, 25, 1})
	f.Add([]byte{
		3, 2, 0, 1, 7, 0, 8, 0, 5, 0, 4, 2, 21, 0, 20, 1,
		22, 0, 23, 2, 21, 1, 3, 1, 10, 0, 20, 0, 11, 0,
	})
	f.Add([]byte{
		26, 0, 27, 0, 3, 1, 0, 1, 7, 0, 8, 0, 5, 0, 4, 2, 27, 0, 11, 0, 26, 3, 27, 2, 27, 25,
	})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			t.Skip("long scripts find nothing that short ones don't")
		}
		dev := NewTracking(NewDevice(t, 2))
		front, back := Pair(t)
		s, err := vhostuser.New(back, dev, vhostuser.Options{Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(context.Background()) }()
		fe := NewFrontend(t, front)
		fe.MustSend(vhostuser.SetProtocolFeatures, Word(allProtocols))
		fe.NeedReply = true
		g := vt.NewGuest(t, vt.Span{Addr: 0, Size: 1 << 16}, vt.Span{Addr: 1 << 20, Size: 1 << 16})
		qs := []*Queue{NewQueue(t, g, 0, 4), NewQueue(t, g, 1, 4)}
		for i := 0; i+1 < len(script); i += 2 {
			play(t, fe, g, qs, script[i], script[i+1])
		}
		if fe.MustQuery(vhostuser.GetFeatures) == 0 {
			t.Error("the session offers nothing")
		}
		_ = front.Close()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if s.Panics() != 0 {
			t.Errorf("%d panics", s.Panics())
		}
	})
}

// play sends the message that op names; arg chooses its content. Refusals are fine.
func play(t *testing.T, f *Frontend, g *vt.Guest, qs []*Queue, op, arg byte) {
	q := qs[arg&1]
	i := uint32(arg & 1)
	region := Regions(g)[arg>>1&1]
	fd := g.FDs[arg>>1&1]
	event := Word(uint64(i))
	switch op % 28 {
	case 0:
		_ = f.Send(vhostuser.SetFeatures,
			Word([]uint64{feats, feats | vhostuser.FeatureProtocol, 0, 1 << 40}[arg&3]))
	case 1:
		_ = f.Send(vhostuser.AddMemReg, vhostuser.AppendRegion(Word(0), region), fd)
	case 2:
		_ = f.Send(vhostuser.RemMemReg, vhostuser.AppendRegion(Word(0), region))
	case 3:
		n := int(arg % 3)
		_ = f.Send(vhostuser.SetMemTable, vhostuser.AppendMemTable(nil, Regions(g)[:n]),
			g.FDs[:n]...)
	case 4:
		_ = f.Send(vhostuser.SetVringEnable, State(i, uint32(arg>>1&1)))
	case 5:
		_ = f.Send(vhostuser.SetVringKick, event, q.Kick)
	case 6:
		_ = f.Send(vhostuser.SetVringCall, event, q.Call)
	case 7:
		_ = f.Send(vhostuser.SetVringNum, State(i, uint32(4)<<(arg>>1&1)))
	case 8:
		_ = f.Send(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	case 9:
		_ = f.Send(vhostuser.SetVringBase, State(i, uint32(arg)))
	case 10:
		_, _ = f.Query(vhostuser.GetVringBase, State(uint32(arg), 0))
	case 11:
		_ = f.Send(vhostuser.ResetDevice, nil)
	case 12:
		_ = f.Send(vhostuser.ResetOwner, nil)
	case 13:
		_, _ = f.Config(uint32(arg))
	case 14:
		_ = f.Send(vhostuser.SetConfig,
			vhostuser.ConfigAccess{Offset: uint32(arg), Data: event}.AppendTo(nil))
	case 15:
		_ = f.Send(vhostuser.SetVringErr, event, q.Call)
	case 16:
		_ = f.Send(vhostuser.SetVringKick, Word(uint64(arg)|NoFD))
	case 17:
		_ = f.Send(vhostuser.SetVringCall, Word(uint64(arg)|NoFD))
	case 18:
		fds := append([]int{q.Kick, q.Call, fd, fd, fd, fd, fd}, g.FDs...)[:arg%9]
		m := &vhostuser.Message{Request: vhostuser.Request(arg), Flags: vhostuser.FlagVersion,
			Payload: make([]byte, arg>>2)}
		if answered(m.Request) {
			return
		}
		if err := f.Write(m, fds...); err != nil {
			t.Fatal(err)
		}
	case 19:
		_ = f.Send(vhostuser.SetProtocolFeatures, Word(allProtocols))
	case 20:
		features := feats | vhostuser.FeatureProtocol | uint64(arg&1)*logAll
		_ = f.Send(vhostuser.SetFeatures, Word(features))
	case 21:
		size := []uint64{4096, 64, 0, 1 << 60}[arg&3]
		_ = f.Write(&vhostuser.Message{
			Request: vhostuser.SetLogBase, Flags: vhostuser.FlagVersion,
			Payload: vhostuser.AppendLog(nil, size, uint64(arg>>3)*2048),
		}, fd)
		_, _ = f.Reply(vhostuser.SetLogBase)
	case 22:
		_ = f.Send(vhostuser.SetLogFD, nil, []int{q.Call, fd}[arg>>2&1])
	case 23:
		a := q.Addr()
		a.Flags, a.Log = uint32(arg>>1&3), q.Driver.Used+uint64(arg>>3)
		_ = f.Send(vhostuser.SetVringAddr, a.AppendTo(nil))
	case 24:
		file := fd
		if arg&3 == vhostuser.StateSave && arg>>3&1 == 1 {
			file = q.Kick // to load from it would wait for a minute
		}
		_ = f.Write(&vhostuser.Message{
			Request: vhostuser.SetDeviceStateFD, Flags: vhostuser.FlagVersion,
			Payload: State(uint32(arg&3), uint32(arg>>2&1)),
		}, file)
		_, _ = f.Reply(vhostuser.SetDeviceStateFD)
	case 25:
		m := &vhostuser.Message{Request: vhostuser.CheckDeviceState, Flags: vhostuser.FlagVersion}
		_ = f.Write(m)
		_, _ = f.Reply(vhostuser.CheckDeviceState)
	case 26:
		v := vhostuser.InFlight{Queues: uint16(arg & 3), QueueSize: uint16(4) << (arg >> 2 & 1)}
		_, _, _ = f.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
	case 27:
		v := vhostuser.InFlight{
			Size: []uint64{4096, 100, 1 << 40, 0}[arg>>3&3], Offset: uint64(arg>>5) * 2048,
			Queues: 1 + uint16(arg&1), QueueSize: uint16(4) << (arg >> 2 & 1),
		}
		_ = f.Send(vhostuser.SetInFlightFD, v.AppendTo(nil), fd)
	}
}

// allProtocol is what a device that can be migrated is offered with.
const allProtocol = vhostuser.ProtocolFeatures | vhostuser.ProtocolLogShmFD |
	vhostuser.ProtocolDeviceState

// allProtocols is what a device is offered with that keeps a record of what is in flight, too.
const allProtocols = allProtocol | vhostuser.ProtocolInFlight

// answered reports whether a request has an answer of its own.
func answered(r vhostuser.Request) bool {
	switch r {
	case vhostuser.GetFeatures, vhostuser.GetProtocolFeatures, vhostuser.GetQueueNum,
		vhostuser.GetVringBase, vhostuser.GetConfig, vhostuser.GetMaxMemSlots, vhostuser.SetLogBase,
		vhostuser.SetDeviceStateFD, vhostuser.CheckDeviceState, vhostuser.GetInFlightFD:
		return true
	case vhostuser.SetProtocolFeatures: // it would take the acknowledgements away
		return true
	}
	return false
}

// dup makes a second descriptor, for an owner that closes it.
func dup(tb testing.TB, fd int) int {
	tb.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
