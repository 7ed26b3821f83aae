// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

type kind uint32

const (
	kept kind = iota + 1
	begin
	keep
	drop
	dropAll
	ready
	replace

	lastKind = replace
)

const messageBytes = 8

var (
	errMessage = errors.New("not a message of the keeper")
	// errNoRoom says that a message's descriptor is lost, since this process may not have more.
	errNoRoom = errors.New("no room for a descriptor")
)

// message is one of the messages in doc.go. The descriptor is -1 if there is none.
type message struct {
	kind   kind
	number uint32
	fd     int
}

// send sends a message. Its descriptor stays the caller's.
func send(c *net.UnixConn, m message) error {
	b := binary.LittleEndian.AppendUint32(nil, uint32(m.kind))
	b = binary.LittleEndian.AppendUint32(b, m.number)
	var rights []byte
	if m.fd >= 0 {
		rights = unix.UnixRights(m.fd)
	}
	_, _, err := c.WriteMsgUnix(b, rights, nil)
	return err
}

// receive waits for a message. Its descriptor is the caller's.
func receive(c *net.UnixConn) (message, error) {
	b, oob := make([]byte, messageBytes+1), make([]byte, unix.CmsgSpace(2*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return message{fd: -1}, err
	}
	return parse(b[:n], oob[:oobn], flags)
}

// receiveNow is receive without a wait. io.EOF says that there is nothing.
func receiveNow(c *net.UnixConn) (m message, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return message{fd: -1}, err
	}
	b, oob := make([]byte, messageBytes+1), make([]byte, unix.CmsgSpace(2*4))
	var n, oobn, flags int
	if control := raw.Control(func(fd uintptr) {
		n, oobn, flags, _, err = unix.Recvmsg(int(fd), b, oob,
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	}); control != nil {
		return message{fd: -1}, control
	}
	if errors.Is(err, unix.EAGAIN) || err == nil && n == 0 && oobn == 0 {
		err = io.EOF
	}
	if err != nil {
		return message{fd: -1}, err
	}
	return parse(b[:n], oob[:oobn], flags)
}

// parse accepts only what send makes.
func parse(b, oob []byte, flags int) (message, error) {
	m := message{fd: -1}
	if len(oob) == 0 && flags&unix.MSG_CTRUNC != 0 {
		return m, errNoRoom
	}
	fds, err := handover.FilesOf(oob)
	if err == nil && (len(b) != messageBytes || len(fds) > 1 ||
		flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
		err = fmt.Errorf("%w: %d bytes, %d descriptors", errMessage, len(b), len(fds))
	}
	if err == nil {
		m.kind, m.number = kind(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])
		if with := m.kind == kept || m.kind == keep; m.kind < kept || m.kind > lastKind ||
			with != (len(fds) == 1) {
			err = fmt.Errorf("%w: kind %d with %d descriptors", errMessage, m.kind, len(fds))
		}
	}
	if err != nil {
		handover.CloseFiles(fds)
		return message{fd: -1}, err
	}
	if len(fds) == 1 {
		m.fd = fds[0]
	}
	return m, nil
}
