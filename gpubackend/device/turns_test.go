// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// These tests have all but the guests: an arbiter, device processes that take part, and workers,
// which are processes, on software GPUs. A software GPU of its own for each would let all of them
// compute at once: that they don't is the gates' doing. Kernels last for a time by the clock.

// spinningImage is a kernel that lasts for so many nanoseconds.
const spinningImage = `.version 7.0
.target sm_75
.address_size 64
.visible .entry spinning(.param .u64 ns)
{
	.reg .b64 %rd<5>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [ns];
	mov.u64 %rd2, %globaltimer;
again:
	mov.u64 %rd3, %globaltimer;
	sub.s64 %rd4, %rd3, %rd2;
	setp.lt.u64 %p1, %rd4, %rd1;
	@%p1 bra again;
	ret;
}
` + "\x00"

// host is an arbiter's socket.
type host struct {
	*testing.T
	path    string
	arbiter *arbiter.Arbiter
	stop    func()         // ends it
	log     *logrus.Logger // the arbiter's; nil: it logs nothing
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, path: filepath.Join(t.TempDir(), "arbiter")}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// start starts an arbiter.
func (h *host) start() {
	h.Helper()
	log := quiet()
	if h.log != nil {
		log = logrus.NewEntry(h.log)
	}
	a, err := arbiter.New(arbiter.Config{Log: log})
	if err != nil {
		h.Fatal(err)
	}
	l, err := net.ListenUnix(link.Network, &net.UnixAddr{Name: h.path, Net: link.Network})
	if err != nil {
		h.Fatal(err)
	}
	h.arbiter = a
	var served sync.WaitGroup
	served.Add(1)
	go func() {
		defer served.Done()
		_ = a.Serve(l)
	}()
	h.stop = sync.OnceFunc(func() { l.Close(); served.Wait(); a.Close() })
}

// tenant is a VM that takes part.
type tenant struct {
	*vm
	page     *gate.Page
	client   *client.Client
	programs []*spinner
}

// vm starts a VM with so many programs.
func (h *host) vm(name string, policy map[string]string, programs int) *tenant {
	h.Helper()
	page, err := gate.New()
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(page.Close) // when nothing of the VM is left
	x := &tenant{page: page}
	x.vm = newVMOf(h.T, Config{Spawn: &processes{}, Gate: page}, "spin-host=0",
		fmt.Sprintf("channels=%d", max(8, programs)))
	x.client, err = client.New(client.Config{
		Path: h.path, Required: true, Name: name, GPUs: []link.GPU{{Name: "soft"}}, Policy: policy,
		Page: page, Log: quiet(),
	})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(x.client.Close)
	x.hello()
	for i := range programs {
		x.programs = append(x.programs, x.spinner(i))
	}
	return x
}

// spinner is a program whose kernels last for some time.
type spinner struct {
	*vm
	channel  int
	function uint64
	seq      uint32
}

// spinner starts a spinner on a channel.
func (x *tenant) spinner(channel int) *spinner {
	x.t.Helper()
	own := *x.vm // what a program has of its own: the arena and what belongs to it
	own.arena, own.events = x.guest.Alloc(arenaBytes, 4096), x.guest.Alloc(4096, 4096)
	p := &spinner{vm: &own, channel: channel, seq: 1}
	p.program(channel)
	const none = uint64(wire.BufferNone) << 56
	given := func(text string) (ref, bytes uint64) {
		p.guest.Write(p.arena+wire.Bulk, []byte(text))
		return uint64(wire.BufferBulk)<<56 | wire.Bulk, uint64(len(text))
	}
	p.context = p.do(gpubackend.OpDevicePrimaryCtxRetain, 0)
	ref, n := given(spinningImage)
	module := p.do(gpubackend.OpModuleLoadData, ref, n, none, 0, none, 0, none, 0)
	ref, n = given("spinning")
	p.function = p.do(gpubackend.OpModuleGetFunction, module, ref, n)
	return p
}

// do calls a function and returns the first word of its answer.
func (p *spinner) do(op gpubackend.Op, words ...uint64) uint64 {
	p.t.Helper()
	p.seq++
	if r, err := p.call(p.channel, op, p.seq, words...); r != 0 || err != nil {
		p.t.Errorf("%s: %d, %v", op.Name(), r, err)
	}
	var s wire.Slot
	s.Decode(p.guest.Read(p.arena+wire.Slots, wire.SlotBytes))
	return s.Word[0]
}

// launch launches kernels of a length, for which nobody waits.
func (p *spinner) launch(n int, long time.Duration) { p.launchIn(0, n, long) }

// launchIn launches them in a stream.
func (p *spinner) launchIn(stream uint64, n int, long time.Duration) {
	for range n {
		p.post(gpubackend.OpLaunchKernel, p.function, stream, 1|1<<32, 1|1<<32, 1|1<<32, 0, 8,
			uint64(long))
	}
	p.submit(p.channel)
}

// post puts a command for whose answer nobody waits.
func (p *spinner) post(op gpubackend.Op, words ...uint64) {
	p.put(wire.Command{
		Op: uint16(op), Size: uint32(wire.CommandSize + 8*len(words)), Context: p.context,
	}, words...)
}

// unread is how much of the ring the worker has yet to read.
func (p *spinner) unread() uint32 {
	b := p.guest.Read(p.arena+wire.ArenaHeaderConsumedOffset, 4)
	return p.appended - binary.LittleEndian.Uint32(b)
}

// kernel is how long kernels last, and plenty how many a program launches before anything is
// measured: the guests need not do anything any more.
const (
	kernel = 500 * time.Microsecond
	plenty = 9000
)

// work has the programs of some VMs launch so many kernels.
func work(n int, tenants ...*tenant) {
	for _, x := range tenants {
		for _, p := range x.programs {
			p.launch(n, kernel)
		}
	}
}

// asks has VMs ask for turns all the time, whatever their workers get round to. A worker that a
// busy machine keeps from its processor asks for none meanwhile, and others have the VM's share:
// rightly, so that nothing could be said of the shares.
func asks(tenants ...*tenant) {
	for _, x := range tenants {
		x.page.Worker(gate.Entries - 1).Wait(true)
	}
}

// refill launches more, where a program's ring has become half empty: half a ring is enough for a
// window in which the VM has the GPU alone.
func (x *tenant) refill() {
	for _, p := range x.programs {
		if p.unread() < wire.RingBytes/2 {
			p.launch(wire.RingBytes/2/launchBytes-1, kernel)
		}
	}
}

// launchBytes is how much of the ring a launch takes.
const launchBytes = wire.CommandSize + 8*8

// kernels is how many a VM's workers have got to the GPU.
func (x *tenant) kernels() float64 { return float64(x.dev.Counters()[handover.Launches]) }

// held is for how long a VM has held the GPU, in seconds.
func (h *host) held(name string) func() float64 {
	return func() float64 {
		for _, v := range h.arbiter.VMs() {
			if v.Name == name {
				return float64(v.HeldNS) / 1e9
			}
		}
		h.Errorf("no VM %s", name)
		return 0
	}
}

// clock is the time, in seconds.
func clock() float64 { return time.Duration(time.Now().UnixNano()).Seconds() }

// during is by how much figures grow in a time, at least.
func during(d time.Duration, figures ...func() float64) (n []float64) {
	for _, f := range figures {
		n = append(n, -f())
	}
	time.Sleep(d)
	for i, f := range figures {
		n[i] += f()
	}
	return n
}

// mustCome waits for what must come, however busy the machine is.
func mustCome(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// grow waits until a figure is higher than it is now.
func grow(t *testing.T, what string, figure func() float64) {
	t.Helper()
	before := figure()
	mustCome(t, what, func() bool { return figure() > before })
}

const (
	settling = 300 * time.Millisecond
	window   = 2 * time.Second
)

// wantShare says what part of both the first should be.
func wantShare(n []float64, want float64) error {
	// of the time held: how much a turn is good for is the processors' doing
	got := n[0] / (n[0] + n[1])
	if math.Abs(got-want) > 0.05 || math.IsNaN(got) {
		return fmt.Errorf("%g and %g: a share of %.3f, want %.3f", n[0], n[1], got, want)
	}
	return nil
}

func TestTurnsByWeight(t *testing.T) {
	h := newHost(t)
	a := h.vm("a", map[string]string{"weight": "300"}, 1)
	b := h.vm("b", map[string]string{"weight": "100"}, 1)
	work(plenty, a, b)
	asks(a, b)
	h.settle("a", "b")
	inSomeWindow(t, func() error {
		n := during(window, h.held("a"), h.held("b"), a.kernels, b.kernels, clock)
		if part := n[2] / (n[2] + n[3]); part < 0.6 || part > 0.9 {
			return fmt.Errorf("%g and %g kernels: a share of %.3f, want 0.750", n[2], n[3], part)
		}
		if sum := (n[2] + n[3]) * kernel.Seconds(); sum > n[4]*1.05 {
			return fmt.Errorf("kernels of %.2f s in %.2f: they were not one at a time", sum, n[4])
		}
		return wantShare(n, 0.75)
	}, a, b)
	if a.dev.Counters()[handover.GPUTime] == 0 {
		t.Error("no GPU time was counted")
	}
}

func TestManyProgramsAreOneVM(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 6)
	work(plenty, a, b)
	asks(a, b)
	h.settle("a", "b")
	inSomeWindow(t, func() error {
		return wantShare(during(window, h.held("a"), h.held("b")), 0.5)
	}, a, b)
}

func TestTimeLimit(t *testing.T) {
	h := newHost(t)
	a := h.vm("a", map[string]string{"time-limit": "30"}, 1)
	work(plenty, a)
	asks(a)
	time.Sleep(settling)
	inSomeWindow(t, func() error {
		n := during(window, a.kernels, h.held("a"), clock)
		if n[0] == 0 && n[1] == 0 {
			return errOwes
		}
		if part := n[0] * kernel.Seconds() / n[2]; part == 0 || part > 0.33 {
			return fmt.Errorf("%.3f of the GPU with a limit of 0.30", part)
		}
		// how much of that is used is the processors' doing
		if part := n[1] / n[2]; part < 0.25 || part > 0.33 {
			return fmt.Errorf("%.3f of the time held with a limit of 0.30", part)
		}
		return nil
	}, a)
}

// TestEndlessKernel of one VM: the other goes on beside it, after it has been waited for.
func TestEndlessKernel(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	a.programs[0].launch(1, 1<<62)
	work(plenty, b)
	asks(b)
	time.Sleep(settling)
	h.keeps(b)
}

// TestWorkerThatIsStopped inside its turn: the others go on, and it does when it is continued.
func TestWorkerThatIsStopped(t *testing.T) {
	h := newHost(t)
	a, b := h.vm("a", nil, 1), h.vm("b", nil, 1)
	pid := pidOf(a.worker(0))
	signal := func(s unix.Signal) {
		if err := unix.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	work(plenty, a, b)
	asks(b)
	mustCome(t, "the worker has no turn", func() bool {
		_, inFlight := a.page.Demand()
		return inFlight
	})
	signal(unix.SIGSTOP)
	defer signal(unix.SIGCONT)
	time.Sleep(settling)
	inSomeWindow(t, func() error {
		n := during(window/2, b.kernels, h.held("b"))
		if n[0] == 0 || n[1] < 0.25*(window/2).Seconds() {
			return fmt.Errorf("%g kernels in %.3f of %v beside a stopped worker", n[0], n[1],
				window/2)
		}
		return nil
	}, b)
	h.keeps(b)
	signal(unix.SIGCONT)
	grow(t, "the worker doesn't go on", a.kernels) // when the other has had what it is owed
}

// TestArbiterThatEnds: VMs go on without one, and share again when there is one.
func TestArbiterThatEnds(t *testing.T) {
	h := newHost(t)
	a := h.vm("a", map[string]string{"weight": "300"}, 1)
	b := h.vm("b", nil, 1)
	work(plenty/8, a, b) // without an arbiter all of that gets to the GPU at once
	h.settle("a", "b")
	before := []float64{a.kernels(), b.kernels()}
	h.stop() // what waits may all be launched before this returns
	mustCome(t, "no kernels without an arbiter", func() bool {
		return a.kernels() > before[0] && b.kernels() > before[1]
	})
	h.start()
	mustCome(t, "the VMs don't find the new arbiter", func() bool {
		return a.client.Joined() && b.client.Joined()
	})
	work(plenty*7/8, a, b)
	asks(a, b)
	h.settle("a", "b")
	inSomeWindow(t, func() error {
		return wantShare(during(window, h.held("a"), h.held("b")), 0.75)
	}, a, b)
}
