// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/internal/leaks"
)

// FuzzKeeper: what comes, with so many descriptors, is a message that send makes, or refused. Then
// no descriptor stays open, and the next message is read.
func FuzzKeeper(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00\x09\x00\x00\x00"), 1)
	f.Add([]byte("\x04\x00\x00\x00\x00\x00\x00\x00"), 0)
	f.Add([]byte("\x04\x00\x00\x00\x00\x00\x00\x00"), 1)
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x00x"), 1)
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00"), 3)
	f.Add([]byte("\x08\x00"), 0)
	f.Fuzz(func(t *testing.T, b []byte, files int) {
		if len(b) == 0 || len(b) > 64 || files < 0 || files > 250 {
			return
		}
		there, far, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		back, err := socket.Conn(far)
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		var rights []byte
		if files > 0 {
			rights = unix.UnixRights(make([]int, files)...)
		}
		for range 2 {
			if _, _, err := there.WriteMsgUnix(b, rights, nil); err != nil {
				t.Fatal(err)
			}
		}
		before := leaks.Descriptors(t)
		for _, receive := range []func() (message, error){
			func() (message, error) { return receive(back) },
			func() (message, error) { return receiveNow(back) },
		} {
			received(t, b, files, receive)
		}
		if n := leaks.Descriptors(t); n != before {
			t.Errorf("%d descriptors, not %d", n, before)
		}
		if err := send(there, message{ready, 7, -1}); err != nil {
			t.Fatal(err)
		}
		if m, err := receiveNow(back); err != nil || m != (message{ready, 7, -1}) {
			t.Errorf("the next is %+v, %v", m, err)
		}
		if _, err := receiveNow(back); err != io.EOF {
			t.Errorf("nothing is there: %v", err)
		}
	})
}

// received reads a message of these bytes, and checks it by sending it again.
func received(t *testing.T, b []byte, files int, receive func() (message, error)) {
	t.Helper()
	m, err := receive()
	if err != nil {
		if m.fd != -1 {
			t.Errorf("a descriptor with an error: %+v", m)
		}
		return
	}
	if m.fd >= 0 {
		defer unix.Close(m.fd)
	}
	if with := m.fd >= 0; files != 0 != with || files > 1 || len(b) != messageBytes {
		t.Fatalf("%+v of %d bytes and %d descriptors", m, len(b), files)
	}
	a, far, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer unix.Close(far)
	if err := send(a, m); err != nil {
		t.Fatal(err)
	}
	got, oob := make([]byte, 2*messageBytes), make([]byte, unix.CmsgSpace(8))
	n, oobn, _, _, err := unix.Recvmsg(far, got, oob, 0)
	if err != nil || string(got[:n]) != string(b) || (oobn > 0) != (files > 0) {
		t.Errorf("%q was sent as %q, %v", b, got[:n], err)
	}
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			t.Fatal(err)
		}
		fds, _ := unix.ParseUnixRights(&messages[0])
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}
