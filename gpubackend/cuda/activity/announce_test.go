// SPDX-License-Identifier: Apache-2.0

package activity

import "testing"

// TestTheLastAnnouncementEndsAStream: two threads announce a stream's end. After the first has
// arrived, the stream has yet to write the second.
func TestTheLastAnnouncementEndsAStream(t *testing.T) {
	var a Activity
	a.Touch(2)
	a.Announce(Announcement{Stream: 2, Addr: 8, Value: 1})
	a.Announce(Announcement{Stream: 2, Addr: 16, Value: 1})
	if a.Arrive(8, 1) || !a.Has(2) || a.IsQuiet(2) {
		t.Error("the stream is idle before the second announcement")
	}
	if !a.Arrive(16, 1) || a.Has(2) || !a.IsQuiet(2) {
		t.Error("the second announcement isn't its end")
	}
}
