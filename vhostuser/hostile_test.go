// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// realized is a session with everything negotiated and features set.
func realized(tb testing.TB, queues int) *rig {
	tb.Helper()
	r := newRig(tb, queues, vhostuser.Options{})
	r.MustSend(vhostuser.SetFeatures, Word(r.Realize(queues)))
	return r
}

// oneWay are the requests that are acknowledged, with the length that they must have.
var oneWay = map[vhostuser.Request]int{
	vhostuser.SetFeatures: 8, vhostuser.SetOwner: 0, vhostuser.ResetOwner: 0,
	vhostuser.SetMemTable: 8, vhostuser.SetVringNum: 8, vhostuser.SetVringAddr: 40,
	vhostuser.SetVringBase: 8, vhostuser.SetVringKick: 8, vhostuser.SetVringCall: 8,
	vhostuser.SetVringErr: 8, vhostuser.SetProtocolFeatures: 8, vhostuser.SetVringEnable: 8,
	vhostuser.SetConfig: 12, vhostuser.ResetDevice: 0, vhostuser.AddMemReg: 40,
	vhostuser.RemMemReg: 40,
}

// Wrong lengths are refused, and the session goes on.
func TestWrongSizes(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	for req, n := range oneWay {
		for _, size := range []int{0, n - 1, n + 1, 4096, 1 << 16} {
			if size < 0 || size == n || (req == vhostuser.SetMemTable && size == n+1) {
				continue
			}
			if err := r.Send(req, make([]byte, size)); err == nil {
				t.Errorf("%v of %d bytes was accepted", req, size)
			}
		}
	}
	for _, req := range []vhostuser.Request{
		vhostuser.GetFeatures, vhostuser.GetProtocolFeatures, vhostuser.GetQueueNum,
		vhostuser.GetVringBase, vhostuser.GetConfig, vhostuser.GetMaxMemSlots,
	} {
		if b, err := r.Query(req, make([]byte, 9)); err != nil || len(b) != 0 {
			t.Errorf("%v of 9 bytes = % x, %v, want an empty reply", req, b, err)
		}
	}
	r.sync()
}

// Descriptors that don't belong to a message are closed: the leak check of TestMain sees to that.
func TestUnwantedDescriptors(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	fds := make([]int, vhostuser.MaxFDs)
	for i := range fds {
		fds[i] = Eventfd(t)
	}
	for range 50 {
		for req, n := range oneWay {
			if err := r.Send(req, make([]byte, n), fds...); err == nil {
				t.Errorf("%v with %d descriptors was accepted", req, len(fds))
			}
		}
		if err := r.Send(99, nil, fds...); err == nil {
			t.Error("an unknown request was accepted")
		}
	}
	// One more than fits: the kernel cuts it off and says so.
	if err := r.Send(vhostuser.SetOwner, nil, append(fds, fds[0])...); err == nil {
		t.Error("nine descriptors were accepted")
	}
	r.sync()
}

func TestQueueIndexAtFullWidth(t *testing.T) {
	t.Parallel()
	r := realized(t, 3)
	fd := Eventfd(t)
	for _, i := range []uint32{3, 255, 0x100, 0x10000, 0x10001, 1<<32 - 1} {
		for _, req := range []vhostuser.Request{
			vhostuser.SetVringNum, vhostuser.SetVringBase, vhostuser.SetVringEnable,
		} {
			if err := r.Send(req, State(i, 1)); err == nil {
				t.Errorf("%v of queue %d was accepted", req, i)
			}
		}
		if err := r.Send(vhostuser.SetVringAddr,
			vhostuser.VringAddr{Index: i}.AppendTo(nil)); err == nil {
			t.Errorf("SET_VRING_ADDR of queue %d was accepted", i)
		}
		if b, err := r.Query(vhostuser.GetVringBase, State(i, 0)); err != nil || len(b) != 0 {
			t.Errorf("GET_VRING_BASE of queue %d = % x, %v", i, b, err)
		}
	}
	for _, w := range []uint64{3, 255, 1 << 9, 1 << 32, 1<<64 - 1} {
		for _, req := range []vhostuser.Request{
			vhostuser.SetVringKick, vhostuser.SetVringCall, vhostuser.SetVringErr,
		} {
			if err := r.Send(req, Word(w), fd); err == nil {
				t.Errorf("%v of %#x was accepted", req, w)
			}
		}
	}
	r.sync()
}

func TestWrongValues(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	fd := Eventfd(t)
	for _, tt := range []struct {
		name    string
		req     vhostuser.Request
		payload []byte
		fds     []int
	}{
		{"size 0", vhostuser.SetVringNum, State(0, 0), nil},
		{"size 3", vhostuser.SetVringNum, State(0, 3), nil},
		{"size 65536", vhostuser.SetVringNum, State(0, 65536), nil},
		{"size 2^31", vhostuser.SetVringNum, State(0, 1<<31), nil},
		{"base 65536", vhostuser.SetVringBase, State(0, 65536), nil},
		{"enable 2", vhostuser.SetVringEnable, State(0, 2), nil},
		{"ring flags", vhostuser.SetVringAddr, vhostuser.VringAddr{Flags: 1}.AppendTo(nil), nil},
		{"kick without descriptor", vhostuser.SetVringKick, Word(0), nil},
		{"no kick with a descriptor", vhostuser.SetVringKick, Word(NoFD), []int{fd}},
		{"features not offered", vhostuser.SetFeatures, Word(1 << 34), nil},
		{"protocol features not offered", vhostuser.SetProtocolFeatures, Word(1 << 14), nil},
		{"config size too large", vhostuser.SetConfig,
			append(make([]byte, 4), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1), nil},
		{"channel without descriptor", vhostuser.SetBackendReqFD, nil, nil},
		{"channel is an eventfd", vhostuser.SetBackendReqFD, nil, []int{fd}},
		{"log base", 6, make([]byte, 16), []int{fd}},
		{"postcopy", 28, nil, nil},
		{"inflight", 32, make([]byte, 24), []int{fd}},
		{"request 0", 0, nil, nil},
		{"request 2^32-1", 1<<32 - 1, nil, nil},
	} {
		if err := r.Send(tt.req, tt.payload, tt.fds...); err == nil {
			t.Errorf("%s was accepted", tt.name)
		}
	}
	r.sync()
}

// What wasn't negotiated is refused.
func TestNotNegotiated(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, vhostuser.Options{})
	r.MustSend(vhostuser.SetProtocolFeatures, Word(vhostuser.ProtocolReplyAck))
	r.NeedReply = true
	pipe := newPipe(t)
	g := vt.NewGuest(t, vt.Span{Size: mib})
	if r.Send(vhostuser.SetBackendReqFD, nil, pipe[1]) == nil ||
		r.Send(vhostuser.AddMemReg, vhostuser.AppendRegion(Word(0), Regions(g)[0]),
			g.FDs[0]) == nil ||
		r.Send(vhostuser.SetConfig, make([]byte, 12)) == nil ||
		r.Send(vhostuser.ResetDevice, nil) == nil {
		t.Error("a message that wasn't negotiated was accepted")
	}
	for _, req := range []vhostuser.Request{vhostuser.GetQueueNum, vhostuser.GetMaxMemSlots,
		vhostuser.GetConfig} {
		if b, err := r.Query(req, make([]byte, 12)); err != nil || len(b) != 0 {
			t.Errorf("%v = % x, %v, want an empty reply", req, b, err)
		}
	}
}

// A running ring doesn't change under the device, and repeating what is so already is fine.
func TestChangesWhileRunning(t *testing.T) {
	t.Parallel()
	r, _, qs := started(t, 1)
	other := qs[0].Addr()
	other.Used += 64
	for name, err := range map[string]error{
		"size":    r.Send(vhostuser.SetVringNum, State(0, 16)),
		"base":    r.Send(vhostuser.SetVringBase, State(0, 3)),
		"address": r.Send(vhostuser.SetVringAddr, other.AppendTo(nil)),
		"features": r.Send(vhostuser.SetFeatures,
			Word(vhostuser.FeatureVersion1|vhostuser.FeatureProtocol)),
		"error fd": r.Send(vhostuser.SetVringErr, Word(0), qs[0].Call),
	} {
		if err == nil {
			t.Errorf("change of %s was accepted while the ring ran", name)
		}
	}
	r.sync()
	r.dev.Calls()
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringAddr, qs[0].Addr().AppendTo(nil))
	r.MustSend(vhostuser.SetVringEnable, State(0, 1))
	r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
	r.want(t, "repeat")
}

func TestRingsOutsideMemory(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	g := vt.NewGuest(t, vt.Span{Addr: 0x10000, Size: mib}, vt.Span{Addr: 0x10000 + mib, Size: mib})
	r.AddMemory(g)
	q := NewQueue(t, g, 0, 8)
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	end := uint64(UserBase + 0x10000 + 2*mib)
	for _, tt := range []struct {
		name   string
		change func(*vhostuser.VringAddr)
	}{
		{"desc before memory", func(a *vhostuser.VringAddr) { a.Desc = UserBase }},
		{"desc over the end", func(a *vhostuser.VringAddr) { a.Desc = end - 112 }},
		{"desc over two regions", func(a *vhostuser.VringAddr) { a.Desc = end - mib - 64 }},
		{"avail over the end", func(a *vhostuser.VringAddr) { a.Avail = end - 20 }},
		{"used over the end", func(a *vhostuser.VringAddr) { a.Used = end - 68 }},
		{"used wraps", func(a *vhostuser.VringAddr) { a.Used = ^uint64(0) - 7 }},
		{"desc misaligned", func(a *vhostuser.VringAddr) { a.Desc += 8 }},
		{"avail misaligned", func(a *vhostuser.VringAddr) { a.Avail++ }},
		{"used misaligned", func(a *vhostuser.VringAddr) { a.Used += 2 }},
	} {
		a := q.Addr()
		tt.change(&a)
		r.MustSend(vhostuser.SetVringAddr, a.AppendTo(nil))
		if err := r.Send(vhostuser.SetVringEnable, State(0, 1)); err == nil {
			t.Errorf("%s: the ring was enabled", tt.name)
		}
		r.MustSend(vhostuser.SetVringEnable, State(0, 0))
	}
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	r.MustSend(vhostuser.SetVringEnable, State(0, 1))
}

func TestVersion1IsRequired(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	r.MustSend(vhostuser.SetFeatures, Word(0))
	g := vt.NewGuest(t, vt.Span{Size: mib})
	q := NewQueue(t, g, 0, 8)
	r.AddMemory(g)
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	if err := r.Send(vhostuser.SetVringKick, Word(0), q.Kick); err == nil {
		t.Error("a ring of a legacy driver was started")
	}
}

// Each kind of descriptor is offered to each message that takes one. None may harm the session.
func TestWrongKindsOfDescriptors(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	pipe := newPipe(t)
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	sock, err := r.Sock.File()
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	memfd := vt.MemFD(t, 4096)
	region := vhostuser.AppendRegion(nil, vhostuser.Region{Size: 4096})
	for name, fd := range map[string]int{
		"pipe": pipe[0], "directory": int(dir.Fd()), "/dev/zero": int(zero.Fd()), "epoll": epoll,
		"own socket": int(sock.Fd()), "memfd": memfd, "eventfd": Eventfd(t),
	} {
		if got := r.Send(vhostuser.AddMemReg, append(Word(0), region...),
			fd) == nil; got != (name == "memfd") {
			t.Errorf("ADD_MEM_REG with a %s accepted: %v", name, got)
		}
		if got := r.Send(vhostuser.SetMemTable, append(Word(1), region...),
			fd) == nil; got != (name == "memfd") {
			t.Errorf("SET_MEM_TABLE with a %s accepted: %v", name, got)
		}
		event := name == "pipe" || name == "eventfd" || name == "epoll" || name == "own socket"
		for _, req := range []vhostuser.Request{vhostuser.SetVringKick, vhostuser.SetVringCall,
			vhostuser.SetVringErr} {
			if got := r.Send(req, Word(0), fd) == nil; got != event {
				t.Errorf("%v with a %s accepted: %v", req, name, got)
			}
		}
		if got := r.Send(vhostuser.SetBackendReqFD, nil, fd) == nil; got != (name == "pipe" ||
			name == "own socket") {
			t.Errorf("SET_BACKEND_REQ_FD with a %s accepted: %v", name, got)
		}
	}
	// Its own socket, held here, would keep the session alive: nobody could see the other end
	// close.
	for _, req := range []vhostuser.Request{vhostuser.SetVringKick, vhostuser.SetVringCall,
		vhostuser.SetVringErr} {
		r.MustSend(req, Word(NoFD))
	}
	r.MustSend(vhostuser.SetBackendReqFD, nil, pipe[1])
	r.sync()
}

// Repeating each message many times leaves nothing behind.
func TestRepeatsLeaveNothing(t *testing.T) {
	t.Parallel()
	r, g, qs := started(t, 1)
	extra := vt.NewGuest(t, vt.Span{Addr: 0x200000000, Size: mib})
	n := 300
	if testing.Short() {
		n = 30
	}
	region := vhostuser.AppendRegion(Word(0), Regions(extra)[0])
	for range n {
		r.MustSend(vhostuser.AddMemReg, region, extra.FDs[0])
		if r.Send(vhostuser.AddMemReg, region, extra.FDs[0]) == nil {
			t.Fatal("a region was added twice")
		}
		r.MustSend(vhostuser.RemMemReg, region, extra.FDs[0])
		if r.Send(vhostuser.RemMemReg, region) == nil {
			t.Fatal("a region was removed twice")
		}
		r.SetMemory(g)
		r.MustSend(vhostuser.SetVringKick, Word(0), qs[0].Kick)
		r.MustSend(vhostuser.SetVringCall, Word(0), qs[0].Call)
	}
	if _, ok := r.dev.Running(0); !ok || r.dev.Regions() != 2 {
		t.Errorf("running %v with %d regions, want true with 2", ok, r.dev.Regions())
	}
}

func TestMemorySlots(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	fd := vt.MemFD(t, 4096*600)
	for i := range uint64(510) {
		region := vhostuser.Region{GuestAddr: i * 8192, UserAddr: UserBase + i*8192, Size: 4096,
			MmapOffset: i * 4096}
		err := r.Send(vhostuser.AddMemReg, vhostuser.AppendRegion(Word(0), region), fd)
		if (err == nil) != (i < vhostuser.MaxMemSlots) {
			t.Fatalf("region %d: %v", i, err)
		}
	}
}
