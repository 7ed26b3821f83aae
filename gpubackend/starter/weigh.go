// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/hostuse"
)

// The kinds of the host's memory in an answer.
const (
	private = iota
	shared
	files // in memory, made for a child; or for one that has ended, whose number is 0
)

var errUnseen = errors.New("the kernel doesn't show the memory of what was started: " +
	"want /proc mounted without hidepid, or the right CAP_SYS_PTRACE")

// weigh says how much of the host's memory the children have. Those that have just ended have none.
func (s *server) weigh(m *message) {
	s.mu.Lock()
	children := slices.Collect(maps.Values(s.children))
	s.mu.Unlock()
	answer, unseen := &message{kind: weighed, id: m.id}, 0
	for _, c := range children {
		if c.memory == nil {
			unseen++
			continue
		}
		b, err := c.memory.Read()
		if err == nil {
			pid := uint32(c.pid)
			answer.used = append(answer.used, usedBy{pid, private, b.Private},
				usedBy{pid, shared, b.Shared})
		}
	}
	if unseen > 0 && len(answer.used) == 0 {
		s.refuse(m, errUnseen)
		return
	}
	for pid, bytes := range s.files.weigh() {
		answer.used = append(answer.used, usedBy{uint32(pid), files, bytes})
	}
	_ = send(s.conn, answer, -1)
}

// Weigh returns how much of the host's memory the children have, by their numbers. Number 0 has the
// files that were made for those that have ended.
func (c *Client) Weigh() (map[int]hostuse.Bytes, error) {
	if !c.knows {
		return nil, fmt.Errorf("weigh processes: %w", errCant)
	}
	a, err := c.ask(&message{kind: weigh}, -1)
	if err == nil && a.kind != weighed {
		a.drop()
		err = errMessage
	}
	if err != nil {
		return nil, fmt.Errorf("weigh processes: %w", err)
	}
	all := map[int]hostuse.Bytes{}
	for _, u := range a.used {
		b := all[int(u.pid)]
		switch u.gpu {
		case private:
			b.Private = u.bytes
		case shared:
			b.Shared = u.bytes
		case files:
			b.Files = u.bytes
		default:
			return nil, fmt.Errorf("weigh processes: %w", errMessage)
		}
		all[int(u.pid)] = b
	}
	return all, nil
}
