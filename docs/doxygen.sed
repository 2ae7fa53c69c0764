# SPDX-License-Identifier: Apache-2.0
# How Doxygen reads a public header: the opening comment describes the file, and what a doc comment
# says of ownership, errors and so on becomes a list. Lines stay where they are.
1s|.*|/// @file|
2,/^#/s|^//|///|
s,^( */// )(Ownership|Errors|Threads|Cost|Source): *,\1- **\2**: ,
