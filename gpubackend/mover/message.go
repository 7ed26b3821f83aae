// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Messages on a worker's connection, a SEQPACKET socket: u32 kind, u32 number, u64 value, and
// files.
//
//	worker: attach (bytes; file, and where in it in units of 2 MiB)
//	mover:  answer (its number; value 0, or if it is refused the status of what the GPU's driver
//	        has answered, or 1)
//	worker: detach (the number)
//	mover:  answer, when nothing is copied from or to it any more
const (
	messageBytes  = 16
	messageAttach = 2
	messageAnswer = 3
	messageDetach = 4
	attachFiles   = 1

	startUnit = gpubackend.Granularity
)

type message struct {
	kind, number uint32
	value        uint64
}

func sendMessage(c *net.UnixConn, m message, fds ...int) error {
	b := binary.LittleEndian.AppendUint32(nil, m.kind)
	b = binary.LittleEndian.AppendUint32(b, m.number)
	b = binary.LittleEndian.AppendUint64(b, m.value)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// readMessage waits for a message without files: a worker may receive none here.
func readMessage(c *net.UnixConn) (message, error) {
	var b [messageBytes + 1]byte
	n, err := c.Read(b[:])
	if err != nil {
		return message{}, fmt.Errorf("receive: %w", err)
	}
	return decodeMessage(b[:n])
}

func decodeMessage(b []byte) (message, error) {
	if len(b) != messageBytes {
		return message{}, fmt.Errorf("%w: message of %d bytes", errProtocol, len(b))
	}
	le := binary.LittleEndian
	return message{le.Uint32(b[0:]), le.Uint32(b[4:]), le.Uint64(b[8:])}, nil
}

// receiveMessage waits for a message. The caller owns the files, of which there are at most
// attachFiles.
func receiveMessage(c *net.UnixConn) (message, []int, error) {
	var b [messageBytes + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*attachFiles))
	n, oobn, flags, _, err := c.ReadMsgUnix(b[:], oob)
	if err != nil {
		return message{}, nil, fmt.Errorf("receive: %w", err)
	}
	if n == 0 {
		return message{}, nil, fmt.Errorf("receive: %w", io.EOF)
	}
	fds, err := handover.FilesOf(oob[:oobn])
	var m message
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: too many files", errProtocol)
	}
	if err == nil {
		m, err = decodeMessage(b[:n])
	}
	if err != nil {
		handover.CloseFiles(fds)
		return message{}, nil, err
	}
	return m, fds, nil
}
