// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// frameType says what a frame on the link carries; guestdriver/init/link.h is
// the guest's end.
type frameType uint32

const (
	frameJob    frameType = 1  // host: what to run; empty at its end
	frameStdin  frameType = 2  // host: standard input; empty at its end
	frameClose  frameType = 3  // host: nobody reads this output anymore
	frameCopied frameType = 4  // host: this VM is a copy of one that had booted; see ofItsOwn
	frameHello  frameType = 16 // guest: init is there; its version
	frameStdout frameType = 17 // guest: standard output
	frameStderr frameType = 18 // guest: standard error
	frameExit   frameType = 19 // guest: the program's exit code
	frameError  frameType = 20 // guest: why the program could not be run
	frameAck    frameType = 21 // guest: took a frame of a job or of input
	frameLost   frameType = 22 // guest: files that end with the VM, and where they are
)

const (
	linkVersion = 3
	dataMax     = 32768 // bytes in a frame
	headerSize  = 8
)

// conn is the host's end of the link, the stream between host and init. Several goroutines may send
// frames at once. A serial line drops what is not read in time, so a frame of a job or of input
// waits until the one before is acknowledged.
type conn struct {
	stream io.ReadWriter
	mu     sync.Mutex // one writer at a time
}

func (l *conn) send(t frameType, data []byte) error {
	frame := make([]byte, headerSize, headerSize+len(data))
	binary.LittleEndian.PutUint32(frame, uint32(t))
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(data)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.stream.Write(append(frame, data...)); err != nil {
		return fmt.Errorf("write to the VM: %w", err)
	}
	return nil
}

func (l *conn) receive() (frameType, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(l.stream, header[:]); err != nil {
		return 0, nil, fmt.Errorf("read from the VM: %w", err)
	}
	t := frameType(binary.LittleEndian.Uint32(header[:]))
	n := binary.LittleEndian.Uint32(header[4:])
	if n > dataMax {
		return 0, nil, fmt.Errorf("read from the VM: a frame of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(l.stream, data); err != nil {
		return 0, nil, fmt.Errorf("read from the VM: %w", err)
	}
	return t, data, nil
}

func u32(data []byte) (uint32, bool) {
	if len(data) < 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(data), true
}
