//! The whole product against real parts. One binary: it links once and starts one control plane.

mod acceptance {
    mod architecture;
    mod cluster;
    mod corpus;
    mod meaning;
}
