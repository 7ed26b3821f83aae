// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
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
	secret   Secret
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

// Secret is by what an offer is found.
type Secret = [SecretBytes]byte

// Kind is what is offered. It is part of the socket's name, under which nothing else is offered.
type Kind string

// The kinds.
const (
	Memory  Kind = "memory"
	Event   Kind = "event"
	Created Kind = "created" // memory without an address
)

var errOtherUser = errors.New("the other side is of another user")

// Realm is the VM whose offers these are: a number that no other VM of this host has.
type Realm uint64

// ErrNone says that nothing is offered under a secret: not any more, or not in this realm.
var ErrNone = errors.New("nobody offers it: a program has ended, or has freed it")

// SocketName is the socket where what belongs to a secret is offered.
func (r Realm) SocketName(kind Kind, secret []byte) *net.UnixAddr {
	name := binary.LittleEndian.AppendUint64([]byte("paracuda "+kind+" "), uint64(r))
	sum := sha256.Sum256(append(name, secret...))
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
func (r Realm) Open(kind Kind, text []byte, fd int) (*Offer, error) {
	var secret Secret
	_, _ = rand.Read(secret[:])
	return r.OpenAs(secret, kind, text, fd)
}

// OpenAs is Open with a secret that was chosen before, under which nothing is offered now.
func (r Realm) OpenAs(secret Secret, kind Kind, text []byte, fd int) (*Offer, error) {
	o := &Offer{secret: secret, text: text, fd: fd}
	if err := o.listen(r.SocketName(kind, secret[:])); err != nil {
		o.closeFile()
		return nil, fmt.Errorf("offer to other processes: %w", err)
	}
	go o.serve(peerUser)
	return o, nil
}

// Secret is what the other process must know.
func (o *Offer) Secret() Secret { return o.secret }

// Close ends the offer. Clients that are connected are still answered.
func (o *Offer) Close() { _ = o.listener.Close() }

// listen takes the name, which must be free.
func (o *Offer) listen(name *net.UnixAddr) (err error) {
	o.listener, err = net.ListenUnix("unix", name)
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
func (r Realm) Receive(kind Kind, secret Secret, bytes int) ([]byte, int, error) {
	return receiveFrom(peerUser, r.SocketName(kind, secret[:]), secret[:], bytes)
}

func receiveFrom(of userOf, name *net.UnixAddr, secret []byte, bytes int) ([]byte, int, error) {
	conn, err := net.DialUnix("unix", nil, name)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, -1, fmt.Errorf("%w: %w", ErrNone, err)
	case err != nil:
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
