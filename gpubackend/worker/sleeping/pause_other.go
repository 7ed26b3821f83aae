// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package sleeping

// pause does nothing: this architecture has no such hint that costs little.
func pause() {}
