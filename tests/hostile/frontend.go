// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// message is one message.
type message struct {
	name                   string
	request, flags, length uint32 // in its header
	payload, files         int    // what is really sent
}

// messages are messages for each request, and for some that don't exist.
func messages() (list []message) {
	requests := []uint32{1<<32 - 1}
	for r := range uint32(vhostuser.CheckDeviceState) + 3 {
		requests = append(requests, r)
	}
	const version, reply = vhostuser.FlagVersion, vhostuser.FlagReply
	for _, r := range requests {
		for _, a := range []message{
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
			a.name = fmt.Sprintf("message: request %d, %s", int32(r), a.name)
			list = append(list, a)
		}
	}
	return list
}

// send sends the message, and waits until the device has closed the connection.
func (m message) send(tb testing.TB, t *target) error {
	c, err := dial(t.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	b := binary.NativeEndian.AppendUint32(nil, m.request)
	b = binary.NativeEndian.AppendUint32(b, m.flags)
	b = binary.NativeEndian.AppendUint32(b, m.length)
	for range m.payload {
		b = append(b, 0xff)
	}
	var rights []byte
	if m.files > 0 {
		rights = unix.UnixRights(slices.Repeat([]int{vhostusertest.Eventfd(tb)}, m.files)...)
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

// run sends the message. The next front end must be told what the device can do.
func (m message) run(t *target) (verdict, error) {
	err := within(func(tb testing.TB) {
		if err := m.send(tb, t); err != nil {
			tb.Fatal(err)
		}
	})
	switch {
	case err != nil:
		return fail, err
	case !t.alive():
		return fail, errDied
	}
	if err := within(func(tb testing.TB) { front(tb, t) }); err != nil {
		return wedged, fmt.Errorf("the next front end: %w", err)
	}
	return pass, nil
}

// Frontend is the hostile front end. It sends messages on connections of their own. Then it has a
// guest, and attacks by its connection. When it goes the device process ends, as it does with a VM.
func Frontend() *Program {
	single, list := messages(), sessions()
	var g *guest
	files := 0
	return &Program{
		name: "frontend",
		cases: func() (names []string) {
			for _, m := range single {
				names = append(names, m.name)
			}
			for _, a := range list {
				names = append(names, a.name)
			}
			return names
		},
		begin: func(tb testing.TB, t *target) func(int) (verdict, error) {
			return func(i int) (verdict, error) {
				if i < len(single) {
					if i == len(single)/10 {
						files = t.files()
					}
					return single[i].run(t)
				}
				if g == nil {
					if files > 0 {
						if err := settles(files, t.files); err != nil {
							return fail, err
						}
					}
					g = connect(tb, t)
					if err := g.begin(); err != nil {
						return fail, err
					}
				}
				return g.run(list[i-len(single)], byte(i))
			}
		},
		end: func() error {
			if g == nil {
				return nil
			}
			return g.goes()
		},
	}
}
