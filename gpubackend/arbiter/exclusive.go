// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
)

// checkExclusive refuses a change of policies, or a VM that joins, if a GPU that some VM is to have
// alone would be another's too. A VM of the same name may be about to leave: it doesn't count.
func (l *loop) checkExclusive(changed map[*member]policy.Policy) error {
	for m, p := range changed {
		for _, other := range l.members {
			q, ok := changed[other]
			if !ok {
				q = other.policy
			}
			if other.name == m.name || other.set&m.set == 0 {
				continue
			}
			switch name := m.common(other); {
			case q.Exclusive == policy.On:
				return fmt.Errorf("GPU %s is VM %s's alone (exclusive=on): give VM %s another one",
					name, other.name, m.name)
			case p.Exclusive == policy.On:
				return fmt.Errorf("exclusive=on: VM %s has GPU %s, too: give VM %s another one",
					other.name, name, m.name)
			}
		}
	}
	return nil
}

// common is a GPU that two VMs have.
func (m *member) common(other *member) string {
	for _, g := range m.gpus {
		if other.has(g.Name) {
			return g.Name
		}
	}
	return ""
}

// has says whether a member has a GPU.
func (m *member) has(gpu string) bool {
	for _, g := range m.gpus {
		if g.Name == gpu {
			return true
		}
	}
	return false
}
