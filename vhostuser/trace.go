// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"fmt"
	"io"
	"sync"
)

// direction is the first letter of a traced message.
type direction byte

const (
	received  direction = '<' // from the front end
	sent      direction = '>' // answer to the front end
	requested direction = '!' // request on the back-end channel
)

// tracer writes messages in the form of the golden files:
//
//	device queues=2 features=0x1
//	< GET_FEATURES 01 00 00 00 01 00 00 00 00 00 00 00
//	> GET_FEATURES 01 00 00 00 05 00 00 00 08 00 00 00 00 00 00 70 01 00 00 00
//	< SET_VRING_KICK fds=1 0c 00 00 00 ...
//
// Lines that begin with # are comments.
type tracer struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu, as the back-end channel writes from other goroutines
}

// begin writes the line that says what was served.
func (t *tracer) begin(queues int, features uint64) {
	t.write(fmt.Sprintf("device queues=%d features=%#x\n", queues, features))
}

// line writes a message.
func (t *tracer) line(dir direction, m *Message) {
	if t.w == nil {
		return
	}
	name := m.Request.String()
	if _, known := rules[m.Request]; !known {
		name = fmt.Sprintf("REQUEST_%d", uint32(m.Request))
	}
	if dir == requested {
		name = fmt.Sprintf("BACKEND_REQUEST_%d", uint32(m.Request))
	}
	fds := ""
	if n := len(m.FDs); n > 0 {
		fds = fmt.Sprintf(" fds=%d", n)
	}
	t.write(fmt.Sprintf("%c %s%s % x\n", dir, name, fds, m.AppendTo(nil)))
}

// write ignores errors: a trace that can't be written must not disturb the session.
func (t *tracer) write(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.w != nil {
		_, _ = io.WriteString(t.w, s)
	}
}
