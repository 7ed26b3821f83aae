// SPDX-License-Identifier: Apache-2.0

package sleeping

// pause lets the other thread of the processor's core go ahead, which may be the guest's, and
// spares the processor what it has read ahead when the word that is polled changes (Intel SDM,
// volume 2B, PAUSE).
//
//go:noescape
func pause()
