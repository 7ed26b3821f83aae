// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/gpubackend/wire"

// configSpace implements the methods of vhostuser.Device that depend only on the protocol's
// version.
type configSpace struct{ version uint32 }

// Features implements vhostuser.Device: none beyond those of the rings.
func (configSpace) Features() uint64 { return 0 }

// SetFeatures implements vhostuser.Device.
func (configSpace) SetFeatures(uint64) error { return nil }

// ReadConfig implements vhostuser.Device. A front end with a configuration space of its own doesn't
// ask.
func (s configSpace) ReadConfig(offset, size uint32) ([]byte, error) {
	var b [wire.ConfigSize]byte
	(&wire.Config{Magic: wire.Magic, Version: s.version}).Encode(b[:])
	if offset >= wire.ConfigSize {
		return nil, nil
	}
	return b[offset:min(uint64(offset)+uint64(size), wire.ConfigSize)], nil
}

// WriteConfig implements vhostuser.Device. The configuration space is read-only; QEMU writes it as
// a whole.
func (configSpace) WriteConfig(uint32, []byte) error { return nil }
