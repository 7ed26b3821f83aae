// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
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
	t        testing.TB
	process  *exec.Cmd
	exited   chan struct{}
	log      string
	socket   string
	front    *vhostusertest.Frontend
	memory   *virtqueuetest.Guest
	queues   []*vhostusertest.Queue
	request  uint64
	channels [2]*channel
}

// buildDir is the folder in which the program under test is built.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	buildDir = dir
	// A Starter's thread lives as long as the process.
	code := leaks.Main(m, "github.com/paracuda/paracuda/gpubackend/sandbox.NewStarter.func1")
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the program under test, once for all tests, unless PARACUDA names one.
var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("PARACUDA"); path != "" {
		return path, nil
	}
	path := filepath.Join(buildDir, "paracuda")
	if out, err := exec.Command("go", "build", "-o", path,
		"../../cmd/paracuda").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func newGuest(t *testing.T) *guest {
	t.Helper()
	return newGuestBy(t, func(*exec.Cmd) {})
}

// newGuestBy makes a guest. prepare may change how its device process is started.
func newGuestBy(t testing.TB, prepare func(*exec.Cmd)) *guest {
	t.Helper()
	g := newDevice(t, prepare)
	g.connect()
	return g
}

// newDevice starts a device process, and connects no front end.
func newDevice(t testing.TB, prepare func(*exec.Cmd)) *guest {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	g := &guest{t: t, log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	g.socket = filepath.Join(dir, "socket")
	log, err := os.Create(g.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	g.process = exec.Command(program, "device", "--gpu", "soft", "--socket-path", g.socket,
		"--set", "channels=2", "--set", "arena=4M", "--set", "soft-memory=128M")
	g.process.Stderr = log
	prepare(g.process)
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.process.Wait()
		close(g.exited)
	}()
	t.Cleanup(func() {
		_ = g.process.Process.Kill()
		<-g.exited
		if said, err := os.ReadFile(g.log); err == nil && t.Failed() {
			t.Logf("the end of the device's log: %s", said[max(0, len(said)-4000):])
		}
	})
	return g
}

// connect connects the guest's front end, and starts its queues.
func (g *guest) connect() {
	t := g.t
	t.Helper()
	g.front = vhostusertest.NewFrontend(t, dial(t, g.socket))
	features := g.front.Realize(3)
	g.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(features))
	g.memory = virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 0, Size: guestBytes})
	g.front.SetMemory(g.memory)
	g.memory.Alloc(1<<20, 4096)
	g.request = g.memory.Alloc(4096, 4096)
	for i := range 3 {
		g.queues = append(g.queues, vhostusertest.NewQueue(t, g.memory, i, queueSize))
	}
	for i := range g.channels {
		g.channels[i] = &channel{g: g, index: i, arena: g.memory.Alloc(arenaBytes, 4096),
			chains: g.memory.Alloc(1<<20, 4096), pages: g.memory.Alloc(1<<20, 4096)}
	}
	g.front.Start(g.queues...)
}

func dial(t testing.TB, socket string) *net.UnixConn {
	t.Helper()
	for wait := patience.Of(starts); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			return c.(*net.UnixConn)
		}
		if wait.Over() {
			t.Fatal(err)
		}
	}
}

func (g *guest) alive() bool {
	select {
	case <-g.exited:
		return false
	default:
		return true
	}
}

// renew gives a queue new rings, as a driver does when it starts again.
func (g *guest) renew(i int) {
	g.front.Stop(g.queues[i])
	g.queues[i] = vhostusertest.NewQueue(g.t, g.memory, i, queueSize)
	g.front.Start(g.queues[i])
}

// reset gives all queues new rings, and starts again, as a guest does when its kernel restarts.
func (g *guest) reset() error {
	for _, q := range g.queues {
		g.front.Stop(q)
	}
	for i := range g.queues {
		g.queues[i] = vhostusertest.NewQueue(g.t, g.memory, i, queueSize)
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

// resident is the private memory of the device's processes, in bytes, and the number of descriptors
// of the first of them.
func (g *guest) resident() (bytes uint64, files int) {
	pids := leaks.Family(g.process.Process.Pid)
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		var size, pages, shared uint64
		_, _ = fmt.Sscan(string(b), &size, &pages, &shared)
		bytes += (pages - shared) * 4096
	}
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pids[0]))
	return bytes, len(list)
}
