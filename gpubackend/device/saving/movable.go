// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Described says that descriptors are open of what no program has any more, which can't be saved;
// nil: there are none.
func (s *Saving) Described() error {
	if s.config.Descriptors == nil || s.config.Descriptors() == 0 {
		return nil
	}
	return errDescriptors
}

// errDescriptors is why a VM isn't saved: nobody could make the descriptors' memory again.
var errDescriptors = errors.New("programs hold descriptors of GPU memory of programs that have " +
	"ended, or have released it: they must close them first")

// Movable says which programs couldn't be saved, and why, apart from what is under way; nil: all
// could, for all that is known. Their workers are asked, all at the same time, while the programs
// run. A VM that is suspended, or about to be, isn't asked.
func (s *Saving) Movable() error {
	if s.config.Suspension.State() != suspend.Running {
		return nil
	}
	if err := s.Described(); err != nil {
		return err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var stay []string
	for _, x := range s.config.Serving() {
		all.Add(1)
		s.config.Run("what keeps a program", func() {
			defer all.Done()
			if why := x.Worker.Movable(); why != "" {
				mu.Lock()
				defer mu.Unlock()
				stay = append(stay, fmt.Sprintf("%s (pid %d): %s", x.Name, x.PID, why))
			}
		})
	}
	all.Wait()
	if len(stay) == 0 {
		return nil
	}
	slices.Sort(stay)
	return errors.New(strings.Join(stay, ", "))
}
