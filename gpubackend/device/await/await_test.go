// SPDX-License-Identifier: Apache-2.0

package await

import (
	"testing"
	"time"
)

// TestGo: what was begun is waited for.
func TestGo(t *testing.T) {
	var c Crowd
	end := make(chan struct{})
	c.Go(func() { <-end })
	all := c.Gone()
	if Closed(all) {
		t.Error("it is over before its end")
	}
	close(end)
	<-all
}

func TestCrowd(t *testing.T) {
	var c Crowd
	if !Closed(c.Gone()) {
		t.Error("nothing goes on before the first")
	}
	c.Add(2)
	first := c.Gone()
	c.Done()
	if Closed(first) || Within(time.Millisecond, first) {
		t.Error("one goes on")
	}
	c.Done()
	if !Closed(first) || !Within(0, first) {
		t.Error("nothing goes on")
	}
	c.Add(1)
	if Closed(c.Gone()) || !Closed(first) {
		t.Error("what begins later is nothing that was waited for")
	}
	c.Done()
	if !Closed(c.Gone()) {
		t.Error("nothing goes on any more")
	}
}
