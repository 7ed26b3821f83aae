// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"testing"
)

// TestGone: a request to a starter process that is gone fails with that reason.
func TestGone(t *testing.T) {
	device, starter := pair(t)
	client := NewClient(device)
	starter.Close()
	_, theirs := control(t)
	for _, when := range []string{"at once", "later"} {
		if _, err := client.Start(Worker, theirs); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", when, err)
		}
		<-client.Gone()
	}
}
