// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// output keeps what kernels print until the worker asks. When more is printed than fits, the oldest goes, as in
// CUDA's buffer for printf. It is safe for concurrent use; the zero value has the default size.
type output struct {
	mu       sync.Mutex
	messages []gpubackend.Output
	bytes    int
	limit    int
	memory   *budget.Account // of the host's, for more than the default
}

func (o *output) add(fd uint32, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, gpubackend.Output{FD: fd, Text: bytes.Clone(text)})
	o.bytes += len(text)
	o.trimLocked()
}

func (o *output) trimLocked() {
	limit := o.limit
	if limit == 0 {
		limit = int(defaultLimits[limitPrintf])
	}
	// A record of CUDA's takes 16 bytes at least, whatever it says.
	for (o.bytes > limit || len(o.messages) > max(limit/16, 256)) && len(o.messages) > 1 {
		o.bytes -= len(o.messages[0].Text)
		o.messages = o.messages[1:]
	}
}

// resize sets how much is kept, if there is memory for it: messages take up to four times what they say.
func (o *output) resize(bytes int) gpubackend.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.memory.Close()
	if over := bytes - int(defaultLimits[limitPrintf]); over > 0 && o.memory.Take(4*uint64(over)) != nil {
		o.limit = 0
		o.trimLocked()
		return gpubackend.OutOfMemory
	}
	o.limit = bytes
	o.trimLocked()
	return gpubackend.Success
}

// take returns everything, neighbours for the same file joined.
func (o *output) take() []gpubackend.Output {
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

// outputWriter is the end at which kernels write.
type outputWriter struct {
	output *output
	fd     uint32
}

func (w outputWriter) Write(text []byte) (int, error) {
	w.output.add(w.fd, text)
	return len(text), nil
}

// Output implements gpubackend.Driver.
func (d *Device) Output() []gpubackend.Output { return d.output.take() }
