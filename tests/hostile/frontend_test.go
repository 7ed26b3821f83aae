// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// frontAttack is one message of a front end, on a connection of its own.
type frontAttack struct {
	name                   string
	request, flags, length uint32 // in its header
	payload, files         int    // what is really sent
}

// frontAttacks are messages for each request, and for some that don't exist.
func frontAttacks() (list []frontAttack) {
	requests := []uint32{1<<32 - 1}
	for r := range uint32(vhostuser.CheckDeviceState) + 3 {
		requests = append(requests, r)
	}
	const version, reply = vhostuser.FlagVersion, vhostuser.FlagReply
	for _, r := range requests {
		for _, a := range []frontAttack{
			{"empty", r, version, 0, 0, 0},
			{"some bytes", r, version, 7, 7, 0},
			{"a page", r, version, 4096, 4096, 0},
			{"the most", r, version, 1 << 16, 1 << 16, 0},
			{"more than that", r, version, 1<<32 - 1, 64, 0},
			{"cut short", r, version, 64, 8, 0},
			{"descriptors", r, version, 8, 8, vhostuser.MaxFDs},
			{"too many descriptors", r, version, 8, 8, 4 * vhostuser.MaxFDs},
			{"an answer", r, version | reply, 8, 8, 0},
			{"another version", r, 2, 8, 8, 0},
		} {
			a.name = fmt.Sprintf("request %d, %s", int32(r), a.name)
			list = append(list, a)
		}
	}
	return list
}

// TestHostileFrontEnds: each front end sends one message on a connection of its own, and goes. The
// next front end is served as if nothing had happened, and the device process keeps no descriptors.
func TestHostileFrontEnds(t *testing.T) {
	g := newDevice(t, func(*exec.Cmd) {})
	word := vhostusertest.Eventfd(t)
	list := frontAttacks()
	begin, before := time.Now(), 0
	for i, a := range list {
		if i == len(list)/10 {
			before = g.files()
		}
		if err := a.do(dial(t, g.socket), word); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		if !g.alive() {
			t.Fatalf("%s: the device process has ended", a.name)
		}
	}
	t.Logf("%d cases in %v", len(list), time.Since(begin))
	for wait := patience.Of(soon); g.files() > before; time.Sleep(10 * time.Millisecond) {
		if wait.Over() {
			t.Fatalf("%d descriptors, want at most %d, as before", g.files(), before)
		}
	}
	g.connect()
	if err := g.hello(0); err != nil {
		t.Fatal(err)
	}
	for i, c := range g.channels {
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		if err := c.compute(byte(i + 1)); err != nil {
			t.Error(err)
		}
	}
}

// files counts the descriptors of the device's processes.
func (g *guest) files() (n int) {
	for _, pid := range leaks.Family(g.process.Process.Pid) {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		n += len(list)
	}
	return n
}

// do sends the message, and waits until the device has closed the connection.
func (a *frontAttack) do(c *net.UnixConn, word int) error {
	defer c.Close()
	b := binary.NativeEndian.AppendUint32(nil, a.request)
	b = binary.NativeEndian.AppendUint32(b, a.flags)
	b = binary.NativeEndian.AppendUint32(b, a.length)
	for range a.payload {
		b = append(b, 0xff)
	}
	var rights []byte
	if a.files > 0 {
		fds := make([]int, a.files)
		for i := range fds {
			fds[i] = word
		}
		rights = unix.UnixRights(fds...)
	}
	_ = c.SetDeadline(time.Now().Add(starts))
	if _, _, err := c.WriteMsgUnix(b, rights, nil); err != nil {
		return nil // the device has refused it before it read all
	}
	_ = c.CloseWrite()
	if _, err := io.Copy(io.Discard, c); err != nil {
		var failed net.Error
		if errors.As(err, &failed) && failed.Timeout() {
			return err
		}
	}
	return nil
}
