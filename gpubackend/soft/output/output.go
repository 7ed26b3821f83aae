// SPDX-License-Identifier: Apache-2.0

// Package output keeps what kernels print (printf, failed asserts) until the worker asks for it. It
// is the last lock that a task takes.
package output

import (
	"bytes"
	"io"
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// DefaultBytes is how much is kept unless told otherwise (CU_LIMIT_PRINTF_FIFO_SIZE).
const DefaultBytes = 1 << 20

// Buffer keeps what kernels print until the worker asks. When more is printed than fits, the oldest
// goes, as in CUDA's buffer for printf. It is safe for concurrent use.
type Buffer struct {
	mu       sync.Mutex
	messages []gpubackend.Output
	bytes    int
	limit    int
	memory   *budget.Account // of the host's, for more than the default
}

// NewBuffer makes an empty buffer of the default size.
func NewBuffer(host *budget.Budget) *Buffer {
	return &Buffer{limit: DefaultBytes, memory: host.Open()}
}

func (o *Buffer) add(fd uint32, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, gpubackend.Output{FD: fd, Text: bytes.Clone(text)})
	o.bytes += len(text)
	o.trimLocked()
}

func (o *Buffer) trimLocked() {
	// A record of CUDA's takes 16 bytes at least, whatever it says.
	for (o.bytes > o.limit || len(o.messages) > max(o.limit/16, 256)) && len(o.messages) > 1 {
		o.bytes -= len(o.messages[0].Text)
		o.messages = o.messages[1:]
	}
}

// Resize sets how much is kept, if there is memory for it: messages take up to four times their
// length.
func (o *Buffer) Resize(bytes int) gpubackend.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.memory.Close()
	if over := bytes - DefaultBytes; over > 0 && o.memory.Take(4*uint64(over)) != nil {
		o.limit = DefaultBytes
		o.trimLocked()
		return gpubackend.OutOfMemory
	}
	o.limit = bytes
	o.trimLocked()
	return gpubackend.Success
}

// Output implements gpubackend.Driver: it returns everything, neighbours for the same file joined.
func (o *Buffer) Output() []gpubackend.Output {
	o.mu.Lock()
	defer o.mu.Unlock()
	var joined []gpubackend.Output
	for _, m := range o.messages {
		if n := len(joined); n > 0 && joined[n-1].FD == m.FD {
			joined[n-1].Text = append(joined[n-1].Text, m.Text...)
		} else {
			joined = append(joined, m)
		}
	}
	o.messages, o.bytes = nil, 0
	return joined
}

// Writer returns the end at which kernels write to a file of the program's: 1 or 2.
func (o *Buffer) Writer(fd uint32) io.Writer { return writer{o, fd} }

type writer struct {
	buffer *Buffer
	fd     uint32
}

// Write implements io.Writer.
func (w writer) Write(text []byte) (int, error) {
	w.buffer.add(w.fd, text)
	return len(text), nil
}
