// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// TestParse: only what send makes is a message, and no descriptor of what isn't one stays open.
func TestParse(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	for _, tt := range []struct {
		b   string
		fds []int
	}{
		{"", nil}, {"\x04\x00\x00\x00\x00\x00\x00", nil},
		{"\x04\x00\x00\x00\x00\x00\x00\x00x", nil},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", nil}, {"\x08\x00\x00\x00\x00\x00\x00\x00", nil},
		{"\x03\x00\x00\x00\x00\x00\x00\x00", nil}, {"\x04\x00\x00\x00\x00\x00\x00\x00", []int{fd}},
		{"\x03\x00\x00\x00\x00\x00\x00\x00", []int{fd, fd}},
		{"\x03\x00\x00\x00\x00\x00\x00\x00", []int{fd, fd, fd}},
	} {
		a, far, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		b, err := socket.Conn(far)
		if err != nil {
			t.Fatal(err)
		}
		var rights []byte
		if len(tt.fds) > 0 {
			rights = unix.UnixRights(tt.fds...)
		}
		for range 2 {
			if _, _, err := a.WriteMsgUnix([]byte(tt.b), rights, nil); err != nil {
				t.Fatal(err)
			}
		}
		m, err := receive(b)
		if err == nil || m.fd != -1 {
			t.Errorf("%q with %d descriptors is %+v", tt.b, len(tt.fds), m)
		}
		if m, err = receiveNow(b); err == nil || m.fd != -1 {
			t.Errorf("%q with %d descriptors is %+v", tt.b, len(tt.fds), m)
		}
		if err := send(a, message{keep, 9, fd}); err != nil {
			t.Fatal(err)
		}
		if m, err = receiveNow(b); err != nil || m.kind != keep || m.number != 9 || m.fd < 0 {
			t.Errorf("a message is %+v, %v", m, err)
		}
		_ = unix.Close(m.fd)
		if _, err = receiveNow(b); err != io.EOF {
			t.Errorf("nothing is there: %v", err)
		}
		_, _ = a.Close(), b.Close()
	}
}

// TestOpenBelievesTheKeeperOnly: what isn't the keeper's is refused, and nothing stays open.
func TestOpenBelievesTheKeeperOnly(t *testing.T) {
	t.Parallel()
	for name, messages := range map[string][]message{
		"ended":     {{kept, 1, 0}},
		"twice":     {{kept, 1, 0}, {kept, 1, 0}, {begin, 0, -1}},
		"a child's": {{keep, 1, 0}, {begin, 0, -1}},
	} {
		conn, far, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if err := send(conn, m); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.Close()
		if _, _, _, err := Open(far); err == nil {
			t.Errorf("%s: is believed", name)
		}
	}
	if _, _, _, err := Open(-1); err == nil {
		t.Error("no descriptor is one")
	}
}

// pair makes a connection: the keeper's end, and one to inherit.
func pair() (*net.UnixConn, int, error) {
	near, far, err := socket.Descriptors(socket.Packets)
	if err != nil {
		return nil, -1, err
	}
	c, err := socket.Conn(near)
	return c, far, err
}
