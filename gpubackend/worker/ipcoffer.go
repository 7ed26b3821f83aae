// SPDX-License-Identifier: Apache-2.0

package worker

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

// offer is what this process gives to other workers of the same user that know the secret. They find it by a socket whose
// name is a hash of the secret: every user of the host can read the names of sockets (/proc/net/unix), and connect to them.
// So whoever connects must send the secret itself, and be of this process's user; and so must be who listens, before the
// secret is sent: another could have taken the name.
type offer struct {
	token    [16]byte // the secret
	text     []byte   // at least a byte
	fd       int      // -1 for none
	listener *net.UnixListener
	ended    atomic.Bool
}

// ipcTimeout bounds what another worker can hold this one up.
const ipcTimeout = 2 * time.Second

// maxAsking bounds those that an offer serves at a time.
const maxAsking = 16

// Kinds of what is offered.
const (
	offersMemory = "memory"
	offersEvent  = "event"
)

var errOtherUser = errors.New("the other side is of another user")

// socketName is where what a secret is of is offered. The kind is part of the hash: nothing else is given under the name.
func socketName(kind string, token []byte) *net.UnixAddr {
	sum := sha256.Sum256(append([]byte("paracuda "+kind+" "), token...))
	return &net.UnixAddr{Name: "@paracuda-" + kind + "-" + hex.EncodeToString(sum[:]), Net: "unix"}
}

// userOf says of which user a connection's other side is.
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

// open chooses a secret and begins to offer. The file is the offer's from now on.
func (o *offer) open(kind string) error {
	_, _ = rand.Read(o.token[:])
	if err := o.listen(kind); err != nil {
		o.closeFile()
		return fmt.Errorf("offer to other processes: %w", err)
	}
	go o.serve(peerUser)
	return nil
}

// listen takes the name, which must be nobody's.
func (o *offer) listen(kind string) (err error) {
	o.listener, err = net.ListenUnix("unix", socketName(kind, o.token[:]))
	return err
}

func (o *offer) closeFile() {
	if o.fd >= 0 {
		unix.Close(o.fd)
	}
}

// serve answers those who ask, until the offer ends. One that says nothing holds up no other.
func (o *offer) serve(of userOf) {
	asking := make(chan struct{}, maxAsking)
	for {
		conn, err := o.listener.AcceptUnix()
		if err != nil {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(ipcTimeout))
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
	for range maxAsking { // until the last that asked has gone
		asking <- struct{}{}
	}
	o.closeFile()
}

// give gives it to who knows the secret.
func (o *offer) give(conn *net.UnixConn) {
	var said [len(o.token)]byte
	n, err := conn.Read(said[:])
	if err != nil || n != len(said) || subtle.ConstantTimeCompare(said[:], o.token[:]) != 1 || o.ended.Load() {
		return
	}
	var rights []byte
	if o.fd >= 0 {
		rights = unix.UnixRights(o.fd)
	}
	_, _, _ = conn.WriteMsgUnix(o.text, rights, nil)
}

// receive asks for what another process offers: so many bytes of text, and a file or -1.
func receive(kind string, token []byte, bytes int) ([]byte, int, error) {
	return receiveFrom(peerUser, kind, token, bytes)
}

func receiveFrom(of userOf, kind string, token []byte, bytes int) ([]byte, int, error) {
	conn, err := net.DialUnix("unix", nil, socketName(kind, token))
	if err != nil {
		return nil, -1, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(ipcTimeout))
	if err := of.check(conn); err != nil {
		return nil, -1, err
	}
	if _, err := conn.Write(token); err != nil {
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
