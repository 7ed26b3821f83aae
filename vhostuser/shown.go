// SPDX-License-Identifier: Apache-2.0

package vhostuser

// Shown is what a front end has shown of itself: enough to say why no driver uses the device.
type Shown struct {
	Protocol uint64 // the protocol features that it accepted
	Chosen   bool   // it has chosen protocol features, perhaps none
	Queues   int    // one more than the highest index that it named, even if the device has fewer
	Read     bool   // a driver has read the config space
	Driver   bool   // a driver has accepted features: its guest uses the device
	Unshared bool   // the memory that it passed can't be the guest's
}

// observe notes what a message shows, and calls Progress if something changed. The message was
// served or refused.
func (s *Session) observe(m *Message, refused error) {
	before := s.shown
	switch m.Request {
	case SetVringCall, SetVringErr, SetVringKick:
		if word, err := decodeWord(m.Payload); err == nil {
			s.shown.Queues = max(s.shown.Queues, int(word&(MaxQueues-1))+1)
		}
	case SetProtocolFeatures:
		s.shown.Protocol, s.shown.Chosen = s.protocol, true
	case GetConfig:
		s.shown.Read = true
	case SetFeatures:
		s.shown.Driver = s.shown.Driver || refused == nil
	}
	if s.shown != before && s.progress != nil {
		s.progress(s.shown)
	}
}
