// Package seal is the envelope of a build plan: bytes that only the zone that
// made them can open, and only for the call that they were made for.
//
// Sealer and opener are the same zone, so the format is symmetric, private to
// the zone and free to change in any release. Everybody else treats a sealed
// plan (a blob) as at most api.BlobMaxBytes opaque bytes. Suite 1 is
//
//	blob       = 0x01 | epoch[4] | salt[24] | commit[32] | ciphertext
//	okm        = HKDF-SHA256(epoch key, salt, "berth/plan/v1" | zone id, 64)
//	key        = okm[:32]     commit = okm[32:]
//	ciphertext = XChaCha20-Poly1305(key, nonce = salt, padded, context)
//	padded     = length[4] | plaintext | zeros
//
// XChaCha20-Poly1305 does not commit to its key: who knows two keys can make one
// ciphertext that opens under both. The commitment closes that, is compared
// first and in constant time, and makes a flood of forgeries cheap to refuse.
// The associated data is the Context of the call; it is rebuilt by the opener
// and never sent. Every blob has one of the lengths of Sizes, so its length
// tells little of what is inside.
//
// Inside is the caller's business: the plan's id, its expiry by the sealing
// zone's own clock and the plan itself. A blob within a blob is plain bytes.
//
// The package is pure: salts, nonces and keys are arguments. All of it is safe
// for concurrent use.
package seal
