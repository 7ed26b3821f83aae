// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/tests/hostile/takenover"
)

// buildTakenOver builds the host's program with workers that may be taken over, once for all tests.
var buildTakenOver = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "takenover")
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(here, "../../cmd/paracuda/main.go"): filepath.Join(here,
			"takenover/main.go.overlay"),
	}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(buildDir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-overlay", file, "-o", path,
		"../../cmd/paracuda").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// workerAttacks are what a worker does that was taken over.
func workerAttacks() (list []attack) {
	for i, d := range takenover.Deeds() {
		list = append(list, attack{"worker's " + d.Kind + ": " + d.Name, 23,
			func(_ *guest, c *channel) error { return c.takenOver(i, d) }})
	}
	return list
}

// takenOver opens the channel with a worker that does a deed, waits until it is done or the worker
// has ended, and closes it again.
func (c *channel) takenOver(number int, d takenover.Deed) (err error) {
	if c.open {
		if err := c.drop(); err != nil {
			return err
		}
	}
	g := c.g
	g.renew(1 + c.index)
	g.memory.Write(takenover.Report, make([]byte, takenover.ReportBytes))
	if d.Vouchers {
		takenover.Vouch(func(address uint64, b []byte) { g.memory.Write(address, b) })
		if err := g.hello(takenover.Vouchers); err != nil {
			return err
		}
		defer func() { _ = g.hello(0) }()
		const bytes = takenover.VouchersEnd - takenover.Vouchers
		before := g.memory.Read(takenover.Vouchers, bytes)
		defer func() {
			if !slices.Equal(g.memory.Read(takenover.Vouchers, bytes), before) {
				err = errors.Join(err, errors.New("memory of the guest has changed"))
			}
		}()
	}
	status, err := g.control(wire.ControlRequest{Type: wire.ControlOpen, Channel: uint32(c.index),
		Pid: 1, Comm: takenover.Name(number)})
	if err != nil {
		return fmt.Errorf("OPEN: %w", err)
	}
	reached := c.done()
	if errors.Is(reached, errSilent) {
		reached = fmt.Errorf("%w; OPEN: status %d", reached, status)
	}
	if status == wire.StatusOk {
		err = c.drop()
	}
	if d.Lies {
		err = errors.Join(err, c.putRight())
	}
	return errors.Join(reached, err)
}

// putRight waits until programs have the device memory again that a worker lied about.
func (c *channel) putRight() (err error) {
	for wait := patience.Of(2 * soon); ; time.Sleep(100 * time.Millisecond) {
		if err = c.g.channels[witness].compute(1); err == nil {
			err = c.recover(1)
		}
		if err == nil || wait.Over() {
			return err
		}
	}
}

// done waits until a deed or its worker has ended: then there are fewer workers than channels. It
// returns what the deed has reached that it must not reach.
func (c *channel) done() error {
	memory := c.g.memory
	begun, looks := false, 0
	for wait := patience.Of(soon); !wait.Over(); time.Sleep(time.Millisecond) {
		b := memory.Read(takenover.Report, takenover.ReportBytes)
		switch binary.LittleEndian.Uint32(b) {
		case takenover.Begun:
			begun = true
		case takenover.Ended:
			n := min(binary.LittleEndian.Uint32(b[4:]), takenover.ReportBytes-8)
			if n > 0 {
				return errors.New(string(b[8 : 8+n]))
			}
			return nil
		}
		// To look at all processes takes as long as to wait.
		if looks++; begun && looks%20 == 0 && len(c.g.workers()) < len(c.g.channels) {
			return nil
		}
	}
	return fmt.Errorf("the deed: begun %t: %w", begun, errSilent)
}

// socketOf is the path of the front end's socket in a command line.
func socketOf(c *exec.Cmd) string { return c.Args[slices.Index(c.Args, "--socket-path")+1] }

// TestHostileWorker: workers that were taken over attack the device process, the mover and the host
// from their sandbox. They reach nothing, the device process lives, another channel doesn't notice,
// and their own channel has a good worker afterwards.
func TestHostileWorker(t *testing.T) {
	program, err := buildTakenOver()
	if err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("@paracuda-hostile-%d", os.Getpid())
	l, err := net.Listen("unix", host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGuestBy(t, func(c *exec.Cmd) {
		c.Path, c.Args[0] = program, program
		c.Args = append(c.Args, "--pass-env", takenover.SocketVariable,
			"--pass-env", takenover.HostSocketVariable,
			"--set", fmt.Sprint("host-memory=", takenover.HostMemory))
		c.Env = append(os.Environ(), takenover.SocketVariable+"="+socketOf(c),
			takenover.HostSocketVariable+"="+host)
	}).opened(t)
	var files int
	for i, a := range workerAttacks() {
		start := time.Now()
		v, err := g.run(a, byte(i))
		if files == 0 && strings.HasPrefix(a.name, "worker's mover") {
			files = g.files() // now the VM has all its processes
		}
		if v != pass {
			t.Errorf("%s: %s: %v", a.name, v, err)
		}
		if took := time.Since(start).Seconds(); took > 2 {
			t.Logf("%s takes %.1f s", a.name, took)
		}
		if !g.alive() {
			break
		}
	}
	g.said(t)
	if err := settles(files+8, g.files); err != nil {
		t.Error(err)
	}
}
