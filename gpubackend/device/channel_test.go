// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
)

// dying is a worker that the test plays itself, up to the point at which it is killed.
type dying struct {
	*vm
	w     *workers.Worker
	state *handover.State
	queue *virtqueue.Queue
}

func (v *vm) dying() *dying {
	v.t.Helper()
	v.open(0)
	q := v.queues[1].Driver
	queue, err := virtqueue.New(v.guest.Mem, virtqueue.Config{
		Size: q.Size, Desc: q.Desc, Avail: q.Avail, Used: q.Used,
		EventIdx: v.features&vhostuser.FeatureEventIdx != 0,
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(queue.Close)
	d := &dying{vm: v, w: v.worker(0), queue: queue}
	d.w.State(func(s *handover.State) { d.state = s })
	return d
}

// take takes a chain as a worker does.
func (d *dying) take() uint16 {
	d.t.Helper()
	d.add(0, uint64(d.queue.Flying()), wire.ChainHeader{Type: wire.ChainEvent})
	c, ok, err := d.queue.Pop()
	if err != nil || !ok {
		d.t.Fatalf("no chain: %v", err)
	}
	d.state.Take(c.Head(), d.queue.Base())
	return c.Head()
}

// push returns a chain as a worker does, as far as the used ring: it doesn't note that it did.
func (d *dying) push(head uint16) {
	d.t.Helper()
	d.state.Giving(head, d.queue.NextUsed())
	if err := d.queue.Push(head, 0); err != nil {
		d.t.Fatal(err)
	}
}

func (d *dying) die() {
	d.w.Kill()
	<-d.w.Gone()
}

// TestWorkerDiesWhileItReturnsAChain: the chain comes back once, however far the worker got.
func TestWorkerDiesWhileItReturnsAChain(t *testing.T) {
	for name, get := range map[string]func(d *dying, head uint16){
		"before the push": func(d *dying, head uint16) { d.state.Giving(head, d.queue.NextUsed()) },
		"after the push":  func(d *dying, head uint16) { d.push(head) },
		"after it was noted": func(d *dying, head uint16) {
			d.push(head)
			d.state.Give(head)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := greetedVM(t, &stubs{}, Timeouts{}).dying()
			d.take()
			get(d, d.take())
			d.die()
			d.reap(1, 2)
			if used := d.queues[1].Driver.UsedIdx(); used != 2 {
				t.Fatalf("%d chains came back, of 2", used)
			}
		})
	}
}

// TestReturnedChainIsUsedAgain: the driver makes a returned chain available again before the worker
// dies. It comes back once more.
func TestReturnedChainIsUsedAgain(t *testing.T) {
	d := greetedVM(t, &stubs{}, Timeouts{}).dying()
	d.push(d.take())
	d.reap(1, 1)
	d.add(0, 1, wire.ChainHeader{Type: wire.ChainEvent})
	d.die()
	d.reap(1, 1)
	d.closeChannel(0)
	d.open(0)
}

// TestWorkerDiesBeforeItsInterrupt: a driver that sleeps learns of the chain all the same.
func TestWorkerDiesBeforeItsInterrupt(t *testing.T) {
	d := greetedVM(t, &stubs{}, Timeouts{}).dying()
	head := d.take()
	var b [8]byte
	_, _ = unix.Read(d.queues[1].Call, b[:])
	d.push(head)
	d.state.Give(head)
	d.die()
	fds := []unix.PollFd{{Fd: int32(d.queues[1].Call), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, int(soon/time.Millisecond)); n != 1 {
		t.Fatal("no interrupt")
	}
}
