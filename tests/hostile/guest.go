// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	guestBytes = 256 << 20
	arenaBytes = 4 << 20
	queueSize  = 64
	soon       = 10 * time.Second
	starts     = time.Minute // for a device process to start, also on an emulated machine
	victim     = 0           // the channel that is attacked
	witness    = 1           // the channel that must not notice
)

// guest is all that is on a VM's side: front end, kernel and libraries.
type guest struct {
	*target
	tb       testing.TB
	front    *vhostusertest.Frontend
	memory   *virtqueuetest.Guest
	queues   []*vhostusertest.Queue
	request  uint64
	channels [2]*channel
}

// front connects a front end as soon as the device process has done with the one before.
func front(tb testing.TB, t *target) *vhostusertest.Frontend {
	tb.Helper()
	for wait := patience.Of(soon); ; time.Sleep(time.Millisecond) {
		conn, err := dial(t.socket)
		if err != nil {
			tb.Fatal(err)
		}
		f := vhostusertest.NewFrontend(tb, conn)
		if _, err = f.Query(vhostuser.GetFeatures, nil); err == nil {
			tb.Cleanup(func() { _ = conn.Close() })
			return f
		}
		_ = conn.Close()
		if wait.Over() {
			tb.Fatalf("the device process serves no front end: %v", err)
		}
	}
}

// connect connects a front end to the device process, and starts its queues.
func connect(tb testing.TB, t *target) *guest {
	tb.Helper()
	g := &guest{target: t, tb: tb}
	g.front = front(tb, t)
	features := g.front.Realize(3)
	g.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(features))
	g.memory = virtqueuetest.NewGuest(tb, virtqueuetest.Span{Addr: 0, Size: guestBytes})
	g.front.SetMemory(g.memory)
	g.memory.Alloc(1<<20, 4096)
	g.request = g.memory.Alloc(4096, 4096)
	for i := range 3 {
		g.queues = append(g.queues, vhostusertest.NewQueue(tb, g.memory, i, queueSize))
	}
	for i := range g.channels {
		g.channels[i] = &channel{g: g, index: i, arena: g.memory.Alloc(arenaBytes, 4096),
			chains: g.memory.Alloc(1<<20, 4096), pages: g.memory.Alloc(1<<20, 4096)}
	}
	g.front.Start(g.queues...)
	return g
}

// renew gives a queue new rings, as a driver does when it starts again.
func (g *guest) renew(i int) {
	g.front.Stop(g.queues[i])
	g.queues[i] = vhostusertest.NewQueue(g.tb, g.memory, i, queueSize)
	g.front.Start(g.queues[i])
}

// reset gives all queues new rings, and starts again, as a guest does when its kernel restarts.
func (g *guest) reset() error {
	for _, q := range g.queues {
		g.front.Stop(q)
	}
	for i := range g.queues {
		g.queues[i] = vhostusertest.NewQueue(g.tb, g.memory, i, queueSize)
		g.front.Start(g.queues[i])
	}
	return g.begin()
}

// begin sends HELLO, and opens both channels, whose rings are new.
func (g *guest) begin() error {
	if err := g.hello(0); err != nil {
		return err
	}
	for _, c := range g.channels {
		if err := c.begin(); err != nil {
			return err
		}
	}
	return nil
}

func (g *guest) kick(i int) { _, _ = unix.Write(g.queues[i].Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// control makes a request on the control queue, and returns the status of the answer.
func (g *guest) control(r wire.ControlRequest) (uint32, error) {
	status, _, err := g.ask(r)
	return status, err
}

// ask is control, and also returns the number in the answer.
func (g *guest) ask(r wire.ControlRequest) (status, number uint32, err error) {
	var b [wire.ControlRequestSize]byte
	r.Encode(b[:])
	g.memory.Write(g.request, b[:])
	g.memory.Write(g.request+64, []byte{0xff, 0xff, 0xff, 0xff})
	head, err := g.queues[0].Driver.Add(
		virtqueuetest.Desc{Addr: g.request, Len: uint32(len(b))},
		virtqueuetest.Desc{Addr: g.request + 64, Len: wire.ControlResponseSize,
			Flags: virtqueuetest.Write},
	)
	if err != nil {
		return 0, 0, err
	}
	g.kick(0)
	for wait := patience.Of(soon); !wait.Over(); time.Sleep(20 * time.Microsecond) {
		if id, _, ok := g.queues[0].Driver.Reap(); ok && uint16(id) == head {
			answer := g.memory.Read(g.request+64, wire.ControlResponseSize)
			return binary.LittleEndian.Uint32(answer), binary.LittleEndian.Uint32(answer[4:]), nil
		}
	}
	return 0, 0, fmt.Errorf("control request: %w", errSilent)
}

// hello greets the device. The driver vouches for pages at an address; 0: it doesn't.
func (g *guest) hello(vouchers uint64) error {
	r := wire.ControlRequest{Type: wire.ControlHello, Number: wire.Version}
	binary.LittleEndian.PutUint64(r.Comm[:], vouchers)
	status, err := g.control(r)
	if err == nil && status != wire.StatusOk {
		err = fmt.Errorf("HELLO: status %d", status)
	}
	return err
}
