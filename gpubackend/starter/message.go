// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Role is what a child is started as.
type Role uint8

// The roles.
const (
	Worker Role = iota + 1
	Mover
	Usage // tells how much memory processes have according to NVIDIA's driver

	lastRole = Usage
)

func (r Role) String() string {
	switch r {
	case Worker:
		return "worker"
	case Mover:
		return "mover"
	case Usage:
		return "usage"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

type kind uint8

const (
	start     kind = iota + 1 // asks for a child: a role, and its connection
	started                   // the answer: its number, and a descriptor that names it
	failed                    // the answer to any request: why not
	ended                     // a child has ended: how; "" if as it should
	count                     // asks what memory of the software GPU all children have
	counted                   // the answer
	connect                   // asks for a connection to the socket that text names
	connected                 // the answer: the connection
	remove                    // asks to remove the socket that text names
	removed                   // the answer
	list                      // asks which children there are
	listing                   // one of them, by the request that asked for it: as started
	listed                    // the answer, after these: the highest number of a request so far
	reopen                    // asks to open a file once more, to be read only
	reopened                  // the answer: the file
	shut                      // asks to take all permissions of a file without a name
	isShut                    // the answer
	weigh                     // asks how much of the host's memory all children have
	weighed                   // the answer
	makes                     // asks for a file in memory for the child with that process id
	made                      // the answer: the file

	lastKind = made
)

// message is a packet: kind, role, length of the text or number of pids, id, pid; then the text, or
// pids, GPUs and their bytes.
type message struct {
	kind kind
	role Role
	id   uint32 // of the request; for a child, of the request for it
	// for failed: the kernel's error, if it is one; for listed: a request's number; for ended: the
	// signal that ended it, or 0; for makes: a child's
	pid  uint32
	text string
	used []usedBy
}

// usedBy is how much memory of a GPU a child has. For the first GPU each child has one. For weighed
// it is how much of the host's memory, and gpu says of which kind. For makes it
// is one file, and gpu says what it is for (memfd.Form).
type usedBy struct {
	pid   uint32
	gpu   uint32
	bytes uint64
}

// hasUsed says whether messages of a kind have used, and no text.
func (k kind) hasUsed() bool { return k == counted || k == weighed || k == makes }

const (
	headerBytes = 12
	usedBytes   = 16
	maxText     = 256
	// MaxChildren is how many children there may be at a time.
	MaxChildren = 256
	maxUsed     = MaxChildren * ledger.GPUs
	maxMessage  = headerBytes + maxUsed*usedBytes
)

var errMessage = errors.New("not a message of the starter process")

// append encodes a message. A text is cut.
func (m *message) append(b []byte) []byte {
	text := m.text[:min(len(m.text), maxText)]
	b = append(b, byte(m.kind), byte(m.role))
	b = binary.LittleEndian.AppendUint16(b, uint16(max(len(text), len(m.used))))
	b = binary.LittleEndian.AppendUint32(b, m.id)
	b = binary.LittleEndian.AppendUint32(b, m.pid)
	for _, u := range m.used {
		b = binary.LittleEndian.AppendUint32(b, u.pid)
		b = binary.LittleEndian.AppendUint32(b, u.gpu)
		b = binary.LittleEndian.AppendUint64(b, u.bytes)
	}
	return append(b, text...)
}

// decode is the inverse. It accepts only what append makes.
func decode(b []byte) (*message, error) {
	if len(b) < headerBytes {
		return nil, errMessage
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	m := &message{
		kind: kind(b[0]), role: Role(b[1]),
		id: binary.LittleEndian.Uint32(b[4:]), pid: binary.LittleEndian.Uint32(b[8:]),
	}
	rest := b[headerBytes:]
	known := m.kind >= start && m.kind <= lastKind && m.role <= lastRole
	switch {
	case !known, (m.kind == start) != (m.role != 0):
		return nil, errMessage
	case !m.kind.hasUsed() && (n > maxText || len(rest) != n):
		return nil, errMessage
	case m.kind.hasUsed() && (n > maxUsed || len(rest) != n*usedBytes),
		m.kind == makes && n != 1:
		return nil, errMessage
	case !m.kind.hasUsed():
		m.text = string(rest)
		return m, nil
	}
	for ; len(rest) > 0; rest = rest[usedBytes:] {
		m.used = append(m.used, usedBy{
			binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:]),
			binary.LittleEndian.Uint64(rest[8:]),
		})
	}
	return m, nil
}

// send sends a message, with a file unless it is -1.
func send(c *net.UnixConn, m *message, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_, _, err := c.WriteMsgUnix(m.append(nil), rights, nil)
	return err
}

// receive waits for a message. The file that came with it, or -1, is the caller's.
func receive(c *net.UnixConn) (m *message, fd int, err error) {
	b, control := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(2*4))
	n, controls, flags, _, err := c.ReadMsgUnix(b, control)
	if err != nil {
		return nil, -1, err
	}
	fds, err := handover.FilesOf(control[:controls])
	if err == nil && (flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(fds) > 1) {
		err = errMessage
	}
	if err == nil {
		m, err = decode(b[:n])
	}
	if err != nil {
		handover.CloseFiles(fds)
		return nil, -1, err
	}
	if len(fds) == 0 {
		return m, -1, nil
	}
	return m, fds[0], nil
}
