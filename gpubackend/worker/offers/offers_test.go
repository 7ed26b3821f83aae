// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// offering offers eight bytes and a file; of says which user asks for them.
func offering(t *testing.T, of userOf) *Offer {
	t.Helper()
	fd, err := unix.MemfdCreate("offered", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	o := &Offer{text: []byte("the text"), fd: fd, secret: [16]byte{1, 2, 3, byte(os.Getpid())}}
	if err := o.listen(Realm(0).SocketName(Memory, o.secret[:])); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); o.serve(of) }()
	t.Cleanup(func() { o.listener.Close(); <-served })
	return o
}

func stranger(*net.UnixConn) (uint32, error) { return uint32(os.Geteuid()) + 1, nil }
func unknown(*net.UnixConn) (uint32, error)  { return 0, errors.New("no credentials") }

// TestOffersNeedTheSecret: the name of the socket, which every user can read, isn't enough.
func TestOffersNeedTheSecret(t *testing.T) {
	o := offering(t, peerUser)
	name := Realm(0).SocketName(Memory, o.secret[:])
	if strings.Contains(name.Name, hex.EncodeToString(o.secret[:4])) {
		t.Fatalf("the secret stands in the name %q", name.Name)
	}
	wrong := o.secret
	wrong[15]++
	for what, said := range map[string][]byte{
		"nothing": nil, "a part": o.secret[:15], "another": wrong[:], "the name": []byte(name.Name),
	} {
		conn, err := net.DialUnix("unix", nil, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(said); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		text, control := make([]byte, 64), make([]byte, unix.CmsgSpace(4))
		n, m, _, _, err := conn.ReadMsgUnix(text, control)
		if n > 0 || m > 0 ||
			err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %d bytes, %d of rights, %v", what, n, m, err)
		}
		conn.Close()
	}
	text, fd, err := Realm(0).Receive(Memory, o.secret, 8)
	if err != nil || string(text) != "the text" || fd < 0 {
		t.Fatalf("%q, %d, %v", text, fd, err)
	}
	handover.CloseFiles([]int{fd})
	if _, _, err := Realm(0).Receive(Event, o.secret, 8); err == nil {
		t.Error("memory was given as an event")
	}
}

// TestOffersAreForOneUser, on both sides.
func TestOffersAreForOneUser(t *testing.T) {
	for name, sides := range map[string][2]userOf{
		"asked by another": {stranger, peerUser}, "asked by whom": {unknown, peerUser},
		"offered by another": {peerUser, stranger}, "offered by whom": {peerUser, unknown},
	} {
		o := offering(t, sides[0])
		at := Realm(0).SocketName(Memory, o.secret[:])
		text, fd, err := receiveFrom(sides[1], at, o.secret[:], 8)
		if err == nil || fd >= 0 || text != nil {
			t.Errorf("%s: %q, %d, %v", name, text, fd, err)
		}
		o.listener.Close()
	}
}

// TestSecretIsToldToNoStranger: another user could have taken the name.
func TestSecretIsToldToNoStranger(t *testing.T) {
	token := [16]byte{9, byte(os.Getpid())}
	l, err := net.ListenUnix("unix", Realm(0).SocketName(Memory, token[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan []byte)
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			close(heard)
			return
		}
		defer conn.Close()
		b, _ := io.ReadAll(conn)
		heard <- b
	}()
	name := Realm(0).SocketName(Memory, token[:])
	if _, _, err := receiveFrom(stranger, name, token[:], 8); !errors.Is(err, errOtherUser) {
		t.Errorf("%v", err)
	}
	if b := <-heard; len(b) != 0 {
		t.Errorf("a stranger heard %x", b)
	}
	o := &Offer{text: []byte("x"), fd: -1, secret: token}
	if err := o.listen(Realm(0).SocketName(Memory, o.secret[:])); err == nil {
		t.Error("a name that is taken was taken")
	}
}

// TestSilentAskersHoldUpNoOther of those that are served.
func TestSilentAskersHoldUpNoOther(t *testing.T) {
	o := offering(t, peerUser)
	for range maxAsking - 1 {
		conn, err := net.DialUnix("unix", nil, Realm(0).SocketName(Memory, o.secret[:]))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	text, fd, err := Realm(0).Receive(Memory, o.secret, 8)
	if err != nil || !bytes.Equal(text, o.text) {
		t.Fatalf("%q, %v", text, err)
	}
	handover.CloseFiles([]int{fd})
}
