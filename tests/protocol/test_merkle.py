"""Merkle trees of RFC 9162: the fast tree equals the definition, and no other path is accepted."""

import hashlib
import random

import pytest

from tacit.base.errors import ParameterError
from tacit.core.protocol.merkle import (
    MerkleTree,
    is_in_tree,
    leaf_hash,
    merkle_path,
    merkle_root,
    path_length,
)

SIZES = (1, 2, 3, 5, 7, 8, 9)


def data(n):
    return [f"leaf {i}".encode() for i in range(n)]


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def split(n):
    """The largest power of two below n."""
    return max(2**k for k in range(n.bit_length()) if 2**k < n)


def slow_root(leaves):
    """RFC 9162, 2.1.1, word for word."""
    if len(leaves) == 1:
        return sha(b"\0", leaves[0])
    k = split(len(leaves))
    return sha(b"\1", slow_root(leaves[:k]), slow_root(leaves[k:]))


def slow_path(leaves, i):
    """RFC 9162, 2.1.3.1."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if i < k:
        return [*slow_path(leaves[:k], i), slow_root(leaves[k:])]
    return [*slow_path(leaves[k:], i - k), slow_root(leaves[:k])]


@pytest.mark.parametrize("n", [*range(1, 34), 100])
def test_roots_and_paths_are_those_of_the_definition(n):
    leaves = data(n)
    root = merkle_root(leaves)
    assert root == slow_root(leaves)
    for i in range(n):
        path = merkle_path(leaves, i)
        assert path == b"".join(slow_path(leaves, i))
        assert len(path) == 32 * path_length(i, n)
        assert is_in_tree(root, leaves[i], i, n, path)


# From the official test data of Certificate Transparency (RFC 6962 has the same tree).
CT = [b"", b"\0", b"\x10", b" !", b"01", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"]
CT_ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


@pytest.mark.parametrize("n", CT_ROOTS)
def test_the_roots_of_certificate_transparency(n):
    assert merkle_root(CT[:n]).hex() == CT_ROOTS[n]


@pytest.mark.parametrize("n", SIZES)
def test_no_other_leaf_place_size_or_path_is_accepted(n):
    leaves = data(n)
    root = merkle_root(leaves)
    for i, leaf in enumerate(leaves):
        path = merkle_path(leaves, i)
        for j in range(-1, 2 * n + 2):
            assert is_in_tree(root, leaf, j, n, path) == (j == i)
        assert not is_in_tree(root, b"leaf", i, n, path)
        assert not is_in_tree(root, leaf, i, n, path + bytes(32))
        assert not is_in_tree(root, leaf, i, n, path + b"\0")
        assert not is_in_tree(sha(root), leaf, i, n, path)
        if path:
            assert not is_in_tree(root, leaf, i, n, path[:-32])
            assert not is_in_tree(root, leaf, i, n, path[:-1])
            assert not is_in_tree(root, leaf, i, n, path[32:])
            swapped = path[32:64] + path[:32] + path[64:]
            assert len(path) < 64 or not is_in_tree(root, leaf, i, n, swapped)
            assert not is_in_tree(root, leaf, i, n, bytes([path[0] ^ 1]) + path[1:])


@pytest.mark.parametrize("n", SIZES[1:])
def test_a_path_shows_its_leaf_for_no_size_with_another_length_of_path(n):
    leaves = data(n)
    root = merkle_root(leaves)
    for i in range(n):
        path = merkle_path(leaves, i)
        for other in range(1, 20):
            if i >= other or path_length(i, other) != path_length(i, n):
                assert not is_in_tree(root, leaves[i], i, other, path)


def test_a_node_is_not_a_leaf():
    """Without the first byte, the two hashes below a node would be the data of a leaf."""
    leaves = data(4)
    left = leaf_hash(leaves[0]) + leaf_hash(leaves[1])
    right = sha(b"\1", leaf_hash(leaves[2]), leaf_hash(leaves[3]))
    assert not is_in_tree(merkle_root(leaves), left, 0, 2, right)
    assert not is_in_tree(merkle_root(leaves), b"\1" + left, 0, 2, right)


@pytest.mark.parametrize("n", [*SIZES, 21, 64])
def test_a_changed_tree_is_the_tree_of_the_changed_leaves(n):
    rng, leaves = random.Random(n), data(n)
    tree = MerkleTree(leaves)
    for turn in range(30):
        changed = rng.sample(range(n), rng.randint(0, n))
        tree.update(dict.fromkeys(changed, b"turn %d" % turn))
        for i in changed:
            leaves[i] = b"turn %d" % turn
        assert tree.root == slow_root(leaves)
        i = rng.randrange(n)
        assert tree.path(i) == b"".join(slow_path(leaves, i))


def test_what_is_not_in_a_tree_is_refused():
    tree = MerkleTree(data(3))
    for wrong in (-1, 3):
        with pytest.raises(ParameterError):
            tree.path(wrong)
        with pytest.raises(ParameterError):
            tree.update({wrong: b""})
        with pytest.raises(ParameterError):
            path_length(wrong, 3)
    with pytest.raises(ParameterError):
        merkle_root([])
