// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Offer is something that is offered.
type Offer struct {
	secret   [SecretBytes]byte
	text     []byte // at least a byte
	fd       int    // -1 for none
	listener *net.UnixListener
	ended    atomic.Bool
}

// timeout bounds how long another worker can hold up this one.
const timeout = 2 * time.Second

// maxAsking bounds the clients that an offer serves at a time.
const maxAsking = 16

// SecretBytes is the size of a secret.
const SecretBytes = 16

// Kind is what is offered. It is part of the socket's name, under which nothing else is offered.
type Kind string

// The kinds.
const (
	Memory Kind = "memory"
	Event  Kind = "event"
)

var errOtherUser = errors.New("the other side is of another user")

// SocketName is the socket where what belongs to a secret is offered.
func SocketName(kind Kind, secret []byte) *net.UnixAddr {
	sum := sha256.Sum256(append([]byte("paracuda "+kind+" "), secret...))
	return &net.UnixAddr{Name: "@paracuda-" + string(kind) + "-" + hex.EncodeToString(sum[:]),
		Net: "unix"}
}

// userOf says which user a connection's other side is of.
type userOf func(*net.UnixConn) (uid uint32, err error)

// peerUser is the user of the other side when it connected or began to listen.
func peerUser(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, fmt.Errorf("peer's credentials: %w", failed)
	}
	return cred.Uid, nil
}

// check refuses a connection with another user's process.
func (f userOf) check(conn *net.UnixConn) error {
	uid, err := f(conn)
	if err == nil && uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("user %d: %w", uid, errOtherUser)
	}
	return err
}

// Open chooses a secret and begins to offer a text, of at least a byte, and a file, -1 for none,
// which the offer owns from now on.
func Open(kind Kind, text []byte, fd int) (*Offer, error) {
	o := &Offer{text: text, fd: fd}
	_, _ = rand.Read(o.secret[:])
	if err := o.listen(kind); err != nil {
		o.closeFile()
		return nil, fmt.Errorf("offer to other processes: %w", err)
	}
	go o.serve(peerUser)
	return o, nil
}

// Secret is what the other process must know.
func (o *Offer) Secret() [SecretBytes]byte { return o.secret }

// Close ends the offer. Clients that are connected are still answered.
func (o *Offer) Close() { _ = o.listener.Close() }

// listen takes the name, which must be free.
func (o *Offer) listen(kind Kind) (err error) {
	o.listener, err = net.ListenUnix("unix", SocketName(kind, o.secret[:]))
	return err
}

func (o *Offer) closeFile() {
	if o.fd >= 0 {
		unix.Close(o.fd)
	}
}

// serve answers clients until the offer ends. A silent one doesn't hold up others.
func (o *Offer) serve(of userOf) {
	asking := make(chan struct{}, maxAsking)
	for {
		conn, err := o.listener.AcceptUnix()
		if err != nil {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(timeout))
		if of.check(conn) != nil {
			_ = conn.Close()
			continue
		}
		asking <- struct{}{}
		go func() {
			o.give(conn)
			_ = conn.Close()
			<-asking
		}()
	}
	o.ended.Store(true)
	for range maxAsking { // until the last client has gone
		asking <- struct{}{}
	}
	o.closeFile()
}

// give gives the offer to a client that knows the secret.
func (o *Offer) give(conn *net.UnixConn) {
	var said [len(o.secret)]byte
	n, err := conn.Read(said[:])
	if err != nil || n != len(said) || subtle.ConstantTimeCompare(said[:], o.secret[:]) != 1 ||
		o.ended.Load() {
		return
	}
	var rights []byte
	if o.fd >= 0 {
		rights = unix.UnixRights(o.fd)
	}
	_, _, _ = conn.WriteMsgUnix(o.text, rights, nil)
}

// Receive asks for what another process offers: so many bytes of text, and a file or -1.
func Receive(kind Kind, secret [SecretBytes]byte, bytes int) ([]byte, int, error) {
	return receiveFrom(peerUser, kind, secret[:], bytes)
}

func receiveFrom(of userOf, kind Kind, secret []byte, bytes int) ([]byte, int, error) {
	conn, err := net.DialUnix("unix", nil, SocketName(kind, secret))
	if err != nil {
		return nil, -1, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if err := of.check(conn); err != nil {
		return nil, -1, err
	}
	if _, err := conn.Write(secret); err != nil {
		return nil, -1, err
	}
	text, control := make([]byte, bytes), make([]byte, unix.CmsgSpace(4))
	got, n, _, _, err := conn.ReadMsgUnix(text, control)
	if err != nil {
		return nil, -1, err
	}
	fds, err := handover.FilesOf(control[:n])
	switch {
	case err != nil:
		return nil, -1, err
	case got != bytes || len(fds) > 1:
		handover.CloseFiles(fds)
		return nil, -1, fmt.Errorf("%d bytes of %d, %d files", got, bytes, len(fds))
	case len(fds) == 0:
		return text, -1, nil
	}
	return text, fds[0], nil
}
