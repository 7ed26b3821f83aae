// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"time"
)

// Replaced is how a device process was replaced.
type Replaced struct {
	From, To string        // their versions
	Took     time.Duration // until the new one answered
}

// replaceLook is the time between two looks for another device process.
const replaceLook = 5 * time.Millisecond

// Replace replaces the device process behind a control socket, and waits for the new one.
func Replace(socket string, patience time.Duration) (r Replaced, err error) {
	before, err := Ask(socket, Request{Version: true})
	if err != nil {
		return r, err
	}
	begin := time.Now()
	// The answer may be lost with the process.
	if _, err := Ask(socket, Request{Replace: true}); errors.As(err, new(refusal)) {
		return r, err
	}
	for time.Since(begin) < patience {
		now, err := Ask(socket, Request{Version: true})
		if err == nil && now.PID != before.PID {
			return Replaced{before.Version, now.Version, time.Since(begin)}, nil
		}
		time.Sleep(replaceLook)
	}
	return r, fmt.Errorf("no other device process answers at %s within %v", socket, patience)
}
