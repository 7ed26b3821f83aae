// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// fakeCUDA is the CUDA back end over the driver library that package cuda is tested with.
func fakeCUDA(t *testing.T) gpubackend.Driver {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := cuda.NewDevice(cuda.Options{
		Library: drivertest.Build(t), Log: logrus.NewEntry(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pageableRig is a worker with a queue, on a device that is no fake of this package.
type pageableRig struct {
	*rig
	t      *testing.T
	guest  *virtqueuetest.Guest
	driver *virtqueuetest.Driver
}

func newPageableRig(t *testing.T, d gpubackend.Driver) *pageableRig {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	r := &pageableRig{rig: newRig(t), t: t,
		guest: virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20})}
	r.driver = virtqueuetest.NewDriver(r.guest, 16, false)
	r.startQueue(t, r.guest, &handover.Queue{Size: 16, Desc: r.driver.Desc, Avail: r.driver.Avail,
		Used: r.driver.Used})
	r.use(d)
	if _, result := d.Open(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	t.Cleanup(d.Close)
	native, result := d.DevicePrimaryCtxRetain(0)
	if result != gpubackend.Success {
		t.Fatalf("context: %d", result)
	}
	r.objects = object.Table{}
	r.context = r.objects.Add(object.Context, uint64(native), 0)
	// A worker keeps such pages mapped until it ends.
	t.Cleanup(func() { space.Unreserve(firstFree, freeAddress+freeStep-firstFree) })
	return r
}

// offer makes pages of the guest available as a MAP. It returns the chain's head.
func (r *pageableRig) offer(id uint32, address uint64, pages ...uint64) uint16 {
	r.t.Helper()
	h := wire.ChainHeader{
		Type: wire.ChainMap, Id: id, Flags: wire.MapFlagWrite, Address: address,
		Bytes: 4096 * uint64(len(pages)),
	}
	var runs []wire.Run
	for _, p := range pages {
		runs = append(runs, wire.Run{Address: p, Bytes: 4096})
	}
	at := r.guest.Alloc(uint64(wire.ChainHeaderSize+wire.RunSize*len(pages)), 8)
	wiretest.Chain(r.guest.Write, at, h, runs...)
	head, err := r.driver.Add(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize})
	if err != nil {
		r.t.Fatal(err)
	}
	return head
}

// show offers pages of the guest as a MAP and has them shown at an address. It returns the chain's
// head.
func (r *pageableRig) show(id uint32, address uint64, pages ...uint64) uint16 {
	r.t.Helper()
	head := r.offer(id, address, pages...)
	r.want(r.t, 0, gpubackend.OpHostPageable, uint64(id), address, 4096*uint64(len(pages)))
	return head
}

// returned is the chain that came back last.
func (r *pageableRig) returned() (head uint16, ok bool) {
	for {
		id, _, more := r.driver.Reap()
		if !more {
			return head, ok
		}
		head, ok = uint16(id), true
	}
}

// TestGraphOfPageableMemory captures copies from and to ordinary memory with a page in common, and
// replays them while other pages take the place of those that were there.
func TestGraphOfPageableMemory(t *testing.T) {
	for name, driver := range map[string]func(*testing.T) gpubackend.Driver{
		"soft": func(*testing.T) gpubackend.Driver {
			return soft.New(soft.Options{Memory: 64 << 20, Base: 0x2c0000000000, Window: 1 << 30})
		},
		"cuda": fakeCUDA,
	} {
		t.Run(name, func(t *testing.T) {
			freeAddress += freeStep
			replayPageable(newPageableRig(t, driver(t)), t, freeAddress)
		})
	}
}

// freeAddress is where nothing is: addresses that were used stay in use.
var freeAddress uint64 = firstFree

const (
	firstFree = 0x5d0000000000
	freeStep  = 1 << 20
)

func replayPageable(r *pageableRig, t *testing.T, address uint64) {
	const bytesIn = 2*4096 + 1000
	page := func() uint64 { return r.guest.Alloc(4096, 4096) }
	a, b, common, d, e := page(), page(), page(), page(), page()
	onMap := func(id uint32,
		offset uint64) uint64 {
		return wire.BufferMap<<56 | uint64(id)<<32 | offset
	}
	dev := r.want(t, 0, gpubackend.OpMemAlloc, bytesIn)
	s := r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	r.want(t, 0, gpubackend.OpStreamBeginCapture, s, 2)
	first := r.show(1, address, a, b, common)
	r.want(t, 0, gpubackend.OpCopyHtoD, dev, onMap(1, 0), bytesIn, bytesIn, s, 0)
	r.show(2, address+8192, common, d, e)
	r.want(t, 0, gpubackend.OpCopyDtoH, dev, onMap(2, 2000), bytesIn, bytesIn, s, 0)
	g := r.want(t, 0, gpubackend.OpStreamEndCapture, s)
	exec := r.want(t, 0, gpubackend.OpGraphInstantiateWithFlags, g, 0)
	replay := func(what byte, from ...uint64) {
		t.Helper()
		in := bytes.Repeat([]byte{what}, bytesIn)
		r.guest.Write(from[0], in[:4096])
		r.guest.Write(from[1], in[:4096])
		r.guest.Write(common, in[:1000])
		r.want(t, 0, gpubackend.OpGraphLaunch, exec, s)
		if result := r.call(t, gpubackend.OpStreamSynchronize, s); result == call.Pending {
			for r.waiting.Len() > 0 {
				r.pollWaiters()
			}
		} else if result != gpubackend.Success {
			t.Fatalf("replay of %d: result %d", what, result)
		}
		got := append(r.guest.Read(common, 4096),
			append(r.guest.Read(d, 4096), r.guest.Read(e, 4096)...)...)
		if !bytes.Equal(got[2000:2000+bytesIn], in) || got[1999] != 0 {
			t.Fatalf("replay of %d copied something else", what)
		}
	}
	replay(1, a, b)
	replay(2, a, b)
	if _, ok := r.returned(); ok {
		t.Fatal("a chain came back whose pages are in use")
	}
	// The program has other pages at the same addresses, and captures once more.
	x, y := page(), page()
	r.show(3, address, x, y)
	if head, ok := r.returned(); !ok || head != first {
		t.Fatalf("chain %d came back (%v), want %d", head, ok, first)
	}
	replay(3, x, y)
	r.want(t, gpubackend.NotPermitted, gpubackend.Op(wire.OpUnmap), 3)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpHostPageable, 3, address, 8192)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpHostRegister, 3, address, 8192, 0)
}
