// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
)

// output keeps what kernels print until the worker asks. When more is printed than fits, the oldest goes, as in
// CUDA's buffer for printf. It is safe for concurrent use; the zero value has the default size.
type output struct {
	mu       sync.Mutex
	messages []gpubackend.Output
	bytes    int
	limit    int
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
	for o.bytes > limit && len(o.messages) > 1 {
		o.bytes -= len(o.messages[0].Text)
		o.messages = o.messages[1:]
	}
}

// resize sets how much is kept.
func (o *output) resize(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limit = bytes
	o.trimLocked()
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
